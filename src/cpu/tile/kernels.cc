// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/tile/parts-inl.h"
#include "cpu/tile/special.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

constexpr const char* kTargetName = HWY_TARGET == HWY_AVX3     ? "AVX3"
                                    : HWY_TARGET == HWY_AVX2   ? "AVX2"
                                    : HWY_TARGET == HWY_SSE4   ? "SSE4"
                                    : HWY_TARGET == HWY_NEON   ? "NEON"
                                    : HWY_TARGET == HWY_EMU128 ? "EMU128"
                                    : HWY_TARGET == HWY_SCALAR ? "SCALAR"
                                                               : "other";

ElementwiseFn elementwise_kernel(Op op, RegType type, unsigned scalar_mask) {
  if (type != RegType::f32 && type != RegType::f64) return integer_kernel(op, type, scalar_mask);
  if (ElementwiseFn fn = float_kernel(op, type, scalar_mask)) return fn;
  if (ElementwiseFn fn = type == RegType::f32 ? math_kernel_f32(op, scalar_mask) : math_kernel_f64(op, scalar_mask))
    return fn;
  return special_kernel(op, type, scalar_mask);
}

// Initialised at compile time: no order of static initialisers to depend on.
extern const TileKernels kKernels;
constinit const TileKernels kKernels = {kTargetName,  HWY_TARGET,           elementwise_kernel,    reduce_kernel,
                                        dot_kernel,   reduce_beside_kernel, reduce_columns_kernel, load_kernel,
                                        store_kernel, convert_kernel,       round_kernel,          fill_tile,
                                        iota_tile,    uniform_tile};

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

#include "cpu/tile/each_target.h"

namespace ebb::cpu {
namespace {

struct Targets {
  const TileKernels* kernels[8];
  std::size_t count = 0;
};

// Best first. A machine that reports none of the compiled targets runs the one the compiler itself may assume.
Targets supported_targets() {
  Targets list;
  const std::int64_t supported = hwy::SupportedTargets();
#define EBB_ADD(name) \
  if (supported & HWY_##name) list.kernels[list.count++] = &N_##name::kKernels;
  EBB_EACH_TARGET(EBB_ADD)
#undef EBB_ADD
  if (list.count == 0) list.kernels[list.count++] = &HWY_STATIC_DISPATCH(kKernels);
  return list;
}

const Targets& targets() {
  static const Targets list = supported_targets();
  return list;
}

std::atomic<const TileKernels*> chosen{nullptr};

}  // namespace

const TileKernels& tile_kernels() {
  const TileKernels* kernels = chosen.load(std::memory_order_acquire);
  if (!kernels) {
    kernels = targets().kernels[0];
    chosen.store(kernels, std::memory_order_release);
  }
  return *kernels;
}

TargetList tile_kernel_targets() { return {targets().kernels, targets().count}; }

void force_tile_kernels(const TileKernels* kernels) {
  chosen.store(kernels ? kernels : targets().kernels[0], std::memory_order_release);
}

}  // namespace ebb::cpu
#endif  // HWY_ONCE
