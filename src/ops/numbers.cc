// SPDX-License-Identifier: MIT
#include "ebb/ops/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb {
namespace {

// Formulas of two operands in f32 or f64, rounded once to their common dtype.
template <class Formula>
Tensor of_two(const char* op, TensorOrScalar a, TensorOrScalar b, Formula formula) {
  const DType dtype = common_dtype(op, {a, b});
  const DType wide = is_half(dtype) ? DType::f32 : dtype;
  const auto term = [&](const TensorOrScalar& t) {
    return operand(op, t, wide, t.is_tensor() ? t.tensor().shape() : Shape{});
  };
  return cast(formula(term(a), term(b)), dtype);
}

Tensor negative(const Tensor& x) {
  return is_floating(x.dtype()) ? logical_or(x < 0, reciprocal(x) < 0) : x < 0;  // 1/x tells −0 from 0
}

}  // namespace

// From the larger one: a + log(1 + e^(b−a)). Each branch is smooth, so ties have every derivative; the difference of
// equal infinities is taken as 0.
Tensor logaddexp(const Tensor& a, const Tensor& b) {
  return of_two("logaddexp", as_real(a), as_real(b), [](const Tensor& a, const Tensor& b) {
    const Tensor difference = where(logical_and(a == b, isinf(a)), 0, b - a);
    return where(a >= b, a + softplus(difference), b + softplus(-difference));
  });
}

// |a| mod |b| is exact and not negative. −a and not |a|, whose slope at 0 would be 0.
Tensor fmod(TensorOrScalar a, TensorOrScalar b) {
  return of_two("fmod", a, b, [](const Tensor& a, const Tensor& b) {
    const Tensor below = a < 0, rest = remainder(where(below, -a, a), abs(b));
    return where(below, -rest, rest);
  });
}

Tensor copysign(TensorOrScalar a, TensorOrScalar b) {
  const auto real = [](const TensorOrScalar& t) { return is_floating(common_dtype("copysign", {t})); };
  if (!real(a) && !real(b)) {  // integers have no −0, but the result is a real
    const DType wide = DType::f32;
    return copysign(operand("copysign", a, wide, common_shape("copysign", {a})),
                    operand("copysign", b, wide, common_shape("copysign", {b})));
  }
  return of_two("copysign", a, b, [](const Tensor& a, const Tensor& b) {
    const Tensor size = abs(a);
    return where(negative(b), -size, size);
  });
}

Tensor signbit(const Tensor& x) { return x.dtype() == DType::bool_ ? zeros(x.shape(), DType::bool_) : negative(x); }

namespace {

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& o) {
  if (!is_floating(x.dtype())) return x;
  const double largest = largest_of(x.dtype()), infinity = std::numeric_limits<double>::infinity();
  Tensor y = where(isnan(x), o.nan, x);
  y = where(x == infinity, o.posinf.value_or(largest), y);
  return where(x == -infinity, o.neginf.value_or(-largest), y);
}

// ---- bits -----------------------------------------------------------------------------------------------------------

namespace {

Tensor bits(Op op, const Tensor& a, const Tensor& b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  require(is_integer(dtype), Error::Kind::type, "{}: needs integers, got {} and {}", info(op).name, name(a.dtype()),
          name(b.dtype()));
  return elementwise_node(op, dtype, dtype, {a, b});
}

bool both_bool(const Tensor& a, const Tensor& b) { return a.dtype() == DType::bool_ && b.dtype() == DType::bool_; }

}  // namespace

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return both_bool(a, b) ? logical_and(a, b) : bits(Op::bitwise_and, a, b);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return both_bool(a, b) ? logical_or(a, b) : bits(Op::bitwise_or, a, b);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return both_bool(a, b) ? logical_xor(a, b) : bits(Op::bitwise_xor, a, b);
}
// −x − 1; for u8 its last eight bits.
Tensor bitwise_not(const Tensor& x) {
  if (x.dtype() == DType::bool_) return logical_not(x);
  require(is_integer(x.dtype()), Error::Kind::type, "bitwise_not: needs integers, got {}", name(x.dtype()));
  return cast(-1 - cast(x, DType::i64), x.dtype());
}
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  return bits(Op::bitwise_left_shift, a, check(b, b >= 0, "bitwise_left_shift: the number of places is negative"));
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  return bits(Op::bitwise_right_shift, a, check(b, b >= 0, "bitwise_right_shift: the number of places is negative"));
}

}  // namespace ebb
