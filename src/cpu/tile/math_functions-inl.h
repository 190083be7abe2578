// The transcendental functions that f32 and f64 tiles have in common, each as a struct for the loops of
// loops-inl.h.
#if defined(EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#undef EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#else
#define EBB_CPU_TILE_MATH_FUNCTIONS_INL_H_
#endif

#include "cpu/tile/math_erf_pow-inl.h"
#include "cpu/tile/math_trig-inl.h"
#include "cpu/tile/parts-inl.h"

// A function of one vector; one with a faster form for vectors in which every lane is plain.
#undef EBB_UNARY
#undef EBB_UNARY_WITH_PLAIN
#define EBB_UNARY(Name, function)           \
  struct Name {                             \
    template <class D, class V>             \
    static HWY_INLINE V call(D d, V x) {    \
      return HWY_NAMESPACE::function(d, x); \
    }                                       \
  };
#define EBB_UNARY_WITH_PLAIN(Name, function, is_plain, plain_function) \
  struct Name {                                                        \
    template <class D, class V>                                        \
    static HWY_INLINE V call(D d, V x) {                               \
      return HWY_NAMESPACE::function(d, x);                            \
    }                                                                  \
    template <class D, class V>                                        \
    static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {                 \
      return HWY_NAMESPACE::is_plain(d, x);                            \
    }                                                                  \
    template <class D, class V>                                        \
    static HWY_INLINE V call_plain(D d, V x, V) {                      \
      return HWY_NAMESPACE::plain_function(d, x);                      \
    }                                                                  \
  };

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

EBB_UNARY_WITH_PLAIN(Exp, exp, exp_is_normal, exp_normal)
EBB_UNARY_WITH_PLAIN(Log, log, is_positive_normal, log_normal)
EBB_UNARY_WITH_PLAIN(Log2, log_to_base_any<Base2>, is_positive_normal, log_to_base_normal<Base2>)
EBB_UNARY_WITH_PLAIN(Log10, log_to_base_any<Base10>, is_positive_normal, log_to_base_normal<Base10>)
EBB_UNARY_WITH_PLAIN(Log1p, log1p, log1p_is_plain, log1p_plain)
EBB_UNARY(Exp2, exp2)
EBB_UNARY(Expm1, expm1)
EBB_UNARY(Tanh, tanh)
EBB_UNARY(Sinh, sinh)
EBB_UNARY(Cosh, cosh)
EBB_UNARY(Asinh, asinh)
EBB_UNARY(Acosh, acosh)
EBB_UNARY(Atanh, atanh)
EBB_UNARY(Asin, asin)
EBB_UNARY(Acos, acos)
EBB_UNARY(Atan, atan)
EBB_UNARY(Cbrt, cbrt)

}  // namespace
}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
