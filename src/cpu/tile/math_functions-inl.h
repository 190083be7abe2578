// SPDX-License-Identifier: MIT
// The transcendental functions of tiles: each as a struct for the loops of loops-inl.h, and as a row of one list, from
// which math_f32.cc and math_f64.cc choose the loop of an operation.
#if defined(EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#undef EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#else
#define EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#endif

#include <type_traits>

#include "cpu/tile/math_erf_pow-inl.h"
#include "cpu/tile/math_trig-inl.h"
#include "cpu/tile/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

// For functions whose error would exceed an ulp of f32 where no instruction multiplies and adds with one rounding.
using FusedOrInDouble = std::conditional_t<HWY_NATIVE_FMA, SameType<float>, InDouble>;

EBB_UNARY_WITH_PLAIN(Exp, exp, exp_is_normal, exp_normal)
EBB_UNARY_WITH_PLAIN(Log, log, is_positive_normal, log_normal)
EBB_UNARY_WITH_PLAIN(Log2, log_to_base_any<Base2>, is_positive_normal, log_to_base_normal<Base2>)
EBB_UNARY_WITH_PLAIN(Log10, log_to_base_any<Base10>, is_positive_normal, log_to_base_normal<Base10>)
EBB_UNARY_WITH_PLAIN(Log1p, log1p, log1p_is_plain, log1p_plain)
EBB_UNARY(Log1pUnit, log1p_unit)
EBB_UNARY(Exp2, exp2)
EBB_UNARY_WITH_PLAIN(Expm1, expm1, expm1_is_plain, expm1_plain)
EBB_UNARY(Tanh, tanh)
EBB_UNARY_WITH_PLAIN(Sinh, sinh, exp_is_normal, sinh_plain)
EBB_UNARY_WITH_PLAIN(Cosh, cosh, exp_is_normal, cosh_plain)
EBB_UNARY(Asinh, asinh)
EBB_UNARY(Acosh, acosh)
EBB_UNARY(Atanh, atanh)

}  // namespace
}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// The functions of one number. Each row: the operation, its function of f32 and whether that computes in f32 or f64,
// its function of f64 and the number of vectors of that side by side. A family of functions lists its rows next to its
// functions.
#undef EBB_MATH_UNARY
#define EBB_MATH_UNARY(X)                                 \
  X(exp, Exp, SameType<float>, Exp, 4)                    \
  X(exp2, Exp2, FusedOrInDouble, Exp2, 4)                 \
  X(expm1, Expm1, FusedOrInDouble, Expm1, 4)              \
  X(log, Log, SameType<float>, Log, 4)                    \
  X(log2, Log2, FusedOrInDouble, Log2, 4)                 \
  X(log10, Log10, FusedOrInDouble, Log10, 4)              \
  X(log1p, Log1p, SameType<float>, Log1p, 4)              \
  X(log1p_unit, Log1pUnit, FusedOrInDouble, Log1pUnit, 4) \
  X(tanh, Tanh, FusedOrInDouble, Tanh, 4)                 \
  X(sinh, Sinh, FusedOrInDouble, Sinh, 4)                 \
  X(cosh, Cosh, FusedOrInDouble, Cosh, 4)                 \
  X(asinh, Asinh, InDouble, Asinh, 4)                     \
  X(acosh, Acosh, InDouble, Acosh, 4)                     \
  X(atanh, Atanh, InDouble, Atanh, 4)                     \
  EBB_MATH_TRIG(X) EBB_MATH_ERF(X)

#endif
