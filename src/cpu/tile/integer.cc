// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/integer.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "cpu/tile/parts-inl.h"
#include "cpu/tile/scalar-inl.h"

// i32, i64 and masks. Plain loops that the compiler vectorises for the target; arithmetic wraps, so it is done
// unsigned.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr T mask_of(bool b) {
  return static_cast<T>(-static_cast<T>(b));
}

struct Copy {
  template <class T>
  static T call(T a) {
    return a;
  }
};
struct Neg {
  template <class T>
  static T call(T a) {
    return static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(a));
  }
};
struct Square {
  template <class T>
  static T call(T a) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(a));
  }
};
struct Abs {
  template <class T>
  static T call(T a) {
    return a < 0 ? Neg::call(a) : a;
  }
};
struct Sign {
  template <class T>
  static T call(T a) {
    return static_cast<T>((a > 0) - (a < 0));
  }
};
struct BitNot {
  template <class T>
  static T call(T a) {
    return static_cast<T>(~a);
  }
};
struct Add {
  template <class T>
  static T call(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T call(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct Mul {
  template <class T>
  static T call(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
};
// Rounds towards minus infinity, as Python. Division by zero gives 0; the lowest number by -1 wraps to itself.
struct FloorDivide {
  template <class T>
  static T call(T a, T b) {
    if (b == 0) return 0;
    if (b == -1) return Neg::call(a);
    const T q = static_cast<T>(a / b);
    return static_cast<T>(q - (a % b != 0 && (a < 0) != (b < 0)));
  }
};
// Has the sign of b, as Python: a = b · floor_divide(a, b) + remainder(a, b) holds for b = 0 too, where it is a.
struct Remainder {
  template <class T>
  static T call(T a, T b) {
    if (b == 0) return a;
    if (b == -1) return 0;
    const T r = static_cast<T>(a % b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
};
// By squaring, wrapping. A negative power is 0 unless the base is 1 or -1.
struct Pow {
  template <class T>
  static T call(T base, T exponent) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? T(1) : T(-1);
      return 0;
    }
    Unsigned<T> result = 1, factor = static_cast<Unsigned<T>>(base);
    for (Unsigned<T> e = static_cast<Unsigned<T>>(exponent); e != 0; e >>= 1, factor *= factor)
      if (e & 1) result *= factor;
    return static_cast<T>(result);
  }
};
struct Maximum {
  template <class T>
  static T call(T a, T b) {
    return a > b ? a : b;
  }
};
struct Minimum {
  template <class T>
  static T call(T a, T b) {
    return a < b ? a : b;
  }
};
struct Eq {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a == b);
  }
};
struct Ne {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a != b);
  }
};
struct Lt {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a < b);
  }
};
struct Le {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a <= b);
  }
};
struct Gt {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a > b);
  }
};
struct Ge {
  template <class T>
  static T call(T a, T b) {
    return mask_of<T>(a >= b);
  }
};
struct BitAnd {
  template <class T>
  static T call(T a, T b) {
    return a & b;
  }
};
struct BitOr {
  template <class T>
  static T call(T a, T b) {
    return a | b;
  }
};
struct BitXor {
  template <class T>
  static T call(T a, T b) {
    return a ^ b;
  }
};
struct LeftShift {
  template <class T>
  static T call(T a, T b) {
    constexpr Unsigned<T> kBits = 8 * sizeof(T);
    const Unsigned<T> moved = static_cast<Unsigned<T>>(a) << (static_cast<Unsigned<T>>(b) % kBits);
    return static_cast<Unsigned<T>>(b) < kBits ? static_cast<T>(moved) : T(0);
  }
};
struct RightShift {
  template <class T>
  static T call(T a, T b) {
    constexpr Unsigned<T> kMost = 8 * sizeof(T) - 1;
    return static_cast<T>(a >> (static_cast<Unsigned<T>>(b) < kMost ? static_cast<Unsigned<T>>(b) : kMost));
  }
};
struct Where {
  template <class T>
  static T call(T mask, T a, T b) {
    return (mask & a) | (~mask & b);
  }
};
struct Fma {
  template <class T>
  static T call(T x, T m, T a) {
    return Add::call(Mul::call(x, m), a);
  }
};

// ivdep: `out` may be an input tile itself, never a shifted one.
template <class F, class T, int kArity, unsigned kScalar>
void loop(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  if (n == 0) return;
  T* o = static_cast<T*>(out);
  const T *pa = static_cast<const T*>(a), *pb = static_cast<const T*>(b), *pc = static_cast<const T*>(c);
  const T sa = kScalar & 1 ? *pa : T(0), sb = kScalar & 2 ? *pb : T(0), sc = kScalar & 4 ? *pc : T(0);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    T va = sa, vb = sb, vc = sc;
    if constexpr (!(kScalar & 1)) va = pa[i];
    if constexpr (kArity > 1 && !(kScalar & 2)) vb = pb[i];
    if constexpr (kArity > 2 && !(kScalar & 4)) vc = pc[i];
    if constexpr (kArity == 1) o[i] = F::call(va);
    if constexpr (kArity == 2) o[i] = F::call(va, vb);
    if constexpr (kArity == 3) o[i] = F::call(va, vb, vc);
  }
  (void)sb, (void)sc, (void)pb, (void)pc;
}

template <class F, class T>
ElementwiseFn unary(unsigned mask) {
  return mask == 0 ? &loop<F, T, 1, 0> : nullptr;
}
template <class F, class T>
ElementwiseFn binary(unsigned mask) {
  return mask == 0 ? &loop<F, T, 2, 0> : mask == 1 ? &loop<F, T, 2, 1> : mask == 2 ? &loop<F, T, 2, 2> : nullptr;
}
template <class F, class T>
ElementwiseFn ternary(unsigned mask) {
  switch (mask) {
    case 0:
      return &loop<F, T, 3, 0>;
    case 2:
      return &loop<F, T, 3, 2>;
    case 4:
      return &loop<F, T, 3, 4>;
    case 6:
      return &loop<F, T, 3, 6>;
    default:
      return nullptr;
  }
}

template <class T>
ElementwiseFn number_kernel(Op op, unsigned mask) {
  switch (op) {
    case Op::copy:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return unary<Copy, T>(mask);
    case Op::check:
      return unary<Copy, T>(mask & ~2u);  // the interpreter does the checking
    case Op::neg:
      return unary<Neg, T>(mask);
    case Op::square:
      return unary<Square, T>(mask);
    case Op::abs:
      return unary<Abs, T>(mask);
    case Op::sign:
      return unary<Sign, T>(mask);
    case Op::add:
      return binary<Add, T>(mask);
    case Op::sub:
      return binary<Sub, T>(mask);
    case Op::mul:
      return binary<Mul, T>(mask);
    case Op::floor_divide:
      return binary<FloorDivide, T>(mask);
    case Op::remainder:
      return binary<Remainder, T>(mask);
    case Op::pow:
      return binary<Pow, T>(mask);
    case Op::maximum:
      return binary<Maximum, T>(mask);
    case Op::minimum:
      return binary<Minimum, T>(mask);
    case Op::eq:
      return binary<Eq, T>(mask);
    case Op::ne:
      return binary<Ne, T>(mask);
    case Op::lt:
      return binary<Lt, T>(mask);
    case Op::le:
      return binary<Le, T>(mask);
    case Op::gt:
      return binary<Gt, T>(mask);
    case Op::ge:
      return binary<Ge, T>(mask);
    case Op::bitwise_and:
      return binary<BitAnd, T>(mask);
    case Op::bitwise_or:
      return binary<BitOr, T>(mask);
    case Op::bitwise_xor:
      return binary<BitXor, T>(mask);
    case Op::bitwise_left_shift:
      return binary<LeftShift, T>(mask);
    case Op::bitwise_right_shift:
      return binary<RightShift, T>(mask);
    case Op::where:
      return ternary<Where, T>(mask);
    case Op::fma:
      return ternary<Fma, T>(mask);
    default:
      return nullptr;
  }
}

// Masks are all ones or zero, so bit operations are logic.
template <class T>
ElementwiseFn mask_kernel(Op op, unsigned mask) {
  switch (op) {
    case Op::copy:
      return unary<Copy, T>(mask);
    case Op::check:
      return unary<Copy, T>(mask & ~2u);
    case Op::logical_not:
      return unary<BitNot, T>(mask);
    case Op::logical_and:
      return binary<BitAnd, T>(mask);
    case Op::logical_or:
      return binary<BitOr, T>(mask);
    case Op::logical_xor:
    case Op::ne:
      return binary<BitXor, T>(mask);
    case Op::eq:
      return binary<Eq, T>(mask);
    case Op::where:
      return ternary<Where, T>(mask);
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseFn integer_kernel(Op op, RegType type, unsigned scalar_mask) {
  switch (type) {
    case RegType::i32:
      return number_kernel<std::int32_t>(op, scalar_mask);
    case RegType::i64:
      return number_kernel<std::int64_t>(op, scalar_mask);
    case RegType::m32:
      return mask_kernel<std::int32_t>(op, scalar_mask);
    case RegType::m64:
      return mask_kernel<std::int64_t>(op, scalar_mask);
    default:
      return nullptr;
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
