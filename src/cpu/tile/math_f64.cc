// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/math_f64.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/tile/math_functions-inl.h"
#include "cpu/tile/scalar-inl.h"

// Transcendental functions on f64 tiles.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

#define EBB_BINARY(Name, function)             \
  struct Name {                                \
    template <class D, class V>                \
    static HWY_INLINE V call(D d, V x, V y) {  \
      return HWY_NAMESPACE::function(d, x, y); \
    }                                          \
  };
EBB_BINARY(Atan2, atan2)
EBB_BINARY(Hypot, hypot)
#undef EBB_BINARY

struct Pow {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x, V y) {
    return HWY_NAMESPACE::pow(d, x, y);
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V y) {
    return pow_of_double_is_plain(d, x, y);
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V x, V y) {
    return pow_plain(d, x, y);
  }
};

}  // namespace

ElementwiseFn math_kernel_f64(Op op, unsigned mask) {
  using F64 = SameType<double>;
  switch (op) {
#define EBB_CASE(name, OfF32, Access, OfF64, vectors) \
  case Op::name:                                      \
    return costly_unary<OfF64, F64, vectors>(mask);
    EBB_MATH_UNARY(EBB_CASE)
#undef EBB_CASE
    case Op::pow:
      return costly_binary<Pow, F64, 2>(mask);
    case Op::atan2:
      return costly_binary<Atan2, F64, 2>(mask);
    case Op::hypot:
      return costly_binary<Hypot, F64>(mask);
    default:
      return nullptr;
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
