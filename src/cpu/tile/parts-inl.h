// SPDX-License-Identifier: MIT
// The parts of a target's TileKernels, each compiled in a file of its own. Null where no loop exists.
#if defined(EBB_CPU_TILE_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_TILE_PARTS_INL_H_
#undef EBB_CPU_TILE_PARTS_INL_H_
#else
#define EBB_CPU_TILE_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include "cpu/tile/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

ElementwiseFn float_kernel(Op op, RegType type, unsigned scalar_mask);    // arithmetic.cc: f32, f64
ElementwiseFn integer_kernel(Op op, RegType type, unsigned scalar_mask);  // integer.cc: i32, i64, m32, m64
ElementwiseFn math_kernel_f32(Op op, unsigned scalar_mask);               // math_f32.cc
ElementwiseFn math_kernel_f64(Op op, unsigned scalar_mask);               // math_f64.cc
ReduceFn reduce_kernel(Op op, RegType type, DType halves);                // reduce.cc
DotFn dot_kernel(RegType type);
ReduceBesideFn reduce_beside_kernel(Op op, RegType type, DType halves);    // reduce_beside.cc
ReduceColumnsFn reduce_columns_kernel(Op op, RegType type, DType halves);  // reduce_columns.cc
LoadFn load_kernel(DType from, RegType to);                                // memory.cc
StoreFn store_kernel(RegType from, DType to);
ElementwiseFn convert_kernel(RegType from, RegType to);
ElementwiseFn round_kernel(DType dtype);
void fill_tile(RegType type, void* dst, const void* value, std::size_t n);  // generate.cc
void iota_tile(RegType type, void* dst, std::int64_t start, std::int64_t step, std::int64_t first, std::size_t n);
void uniform_tile(RegType type, void* dst, std::uint64_t seed, std::uint64_t operation, std::int64_t first,
                  std::size_t n);

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
