#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/math_f64.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/tile/math_functions-inl.h"

// Transcendental functions on f64 tiles.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

EBB_UNARY_WITH_PLAIN(Erf, erf, is_below_one, erf_small)
EBB_UNARY(Erfc, erfc)

template <Trig kFunction>
struct Circular {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x) {
    return trig<kFunction, false>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {
    return trig_in_range<false>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V x, V) {
    return trig_ordinary<kFunction, false>(d, x);
  }
};

#define EBB_BINARY(Name, function)             \
  struct Name {                                \
    template <class D, class V>                \
    static HWY_INLINE V call(D d, V x, V y) {  \
      return HWY_NAMESPACE::function(d, x, y); \
    }                                          \
  };
EBB_BINARY(Pow, pow)
EBB_BINARY(Atan2, atan2)
EBB_BINARY(Hypot, hypot)
#undef EBB_BINARY

}  // namespace

ElementwiseFn math_kernel_f64(Op op, unsigned mask) {
  using F64 = SameType<double>;
  switch (op) {
    case Op::exp:
      return costly_unary<Exp, F64>(mask);
    case Op::exp2:
      return costly_unary<Exp2, F64>(mask);
    case Op::expm1:
      return costly_unary<Expm1, F64>(mask);
    case Op::log:
      return costly_unary<Log, F64>(mask);
    case Op::log2:
      return costly_unary<Log2, F64>(mask);
    case Op::log10:
      return costly_unary<Log10, F64>(mask);
    case Op::log1p:
      return costly_unary<Log1p, F64>(mask);
    case Op::tanh:
      return costly_unary<Tanh, F64>(mask);
    case Op::erf:
      return costly_unary<Erf, F64, 2>(mask);
    case Op::erfc:
      return costly_unary<Erfc, F64, 2>(mask);
    case Op::sinh:
      return costly_unary<Sinh, F64>(mask);
    case Op::cosh:
      return costly_unary<Cosh, F64>(mask);
    case Op::asinh:
      return costly_unary<Asinh, F64>(mask);
    case Op::acosh:
      return costly_unary<Acosh, F64>(mask);
    case Op::atanh:
      return costly_unary<Atanh, F64>(mask);
    case Op::asin:
      return costly_unary<Asin, F64>(mask);
    case Op::acos:
      return costly_unary<Acos, F64>(mask);
    case Op::atan:
      return costly_unary<Atan, F64>(mask);
    case Op::cbrt:
      return costly_unary<Cbrt, F64>(mask);
    case Op::sin:
      return costly_unary<Circular<Trig::sin>, F64>(mask);
    case Op::cos:
      return costly_unary<Circular<Trig::cos>, F64>(mask);
    case Op::tan:
      return costly_unary<Circular<Trig::tan>, F64>(mask);
    case Op::pow:
      return costly_binary<Pow, F64>(mask);
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
