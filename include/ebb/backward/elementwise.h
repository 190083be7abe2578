// SPDX-License-Identifier: MIT
#pragma once
#include <tuple>
#include <utility>

#include "ebb/ops/elementwise.h"

// The gradient rules of ebb/ops/elementwise.h, for chaining by hand: the same functions the backward pass uses. `grad`
// is the cotangent of the result; y is the result, x, a, b... the operands, whichever the rule needs. Cotangents of
// broadcast operands are summed to the operand's shape. `eps` > 0 keeps a rule with a pole away from it, sign
// preserved: d becomes copysign(max(|d|, eps), d). The default gives IEEE infinities there.
namespace ebb {

using TensorPair = std::pair<Tensor, Tensor>;
using TensorTriple = std::tuple<Tensor, Tensor, Tensor>;

TensorPair add_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
TensorPair sub_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
TensorPair mul_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
TensorPair div_backward(const Tensor& grad, const Tensor& a, const Tensor& b, double eps = 0);
TensorPair pow_backward(const Tensor& grad, const Tensor& base, const Tensor& exponent);
Tensor pow_backward(const Tensor& grad, const Tensor& base, Scalar exponent);
TensorPair floor_divide_backward(const Tensor& grad, const Tensor& a, const Tensor& b);  // zeros
TensorPair remainder_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
TensorPair maximum_backward(const Tensor& grad, const Tensor& a, const Tensor& b);  // half each at a tie
TensorPair minimum_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
TensorPair atan2_backward(const Tensor& grad, const Tensor& y, const Tensor& x);  // 0 at the origin
TensorPair hypot_backward(const Tensor& grad, const Tensor& a, const Tensor& b);  // 0 at the origin
TensorPair xlogy_backward(const Tensor& grad, const Tensor& x, const Tensor& y);
TensorTriple fma_backward(const Tensor& grad, const Tensor& x, const Tensor& m, const Tensor& a);
TensorTriple affine_backward(const Tensor& grad, const Tensor& x, const Tensor& m, const Tensor& a);
TensorTriple lerp_backward(const Tensor& grad, const Tensor& start, const Tensor& end, const Tensor& weight);

Tensor neg_backward(const Tensor& grad);
Tensor reciprocal_backward(const Tensor& grad, const Tensor& y);
Tensor square_backward(const Tensor& grad, const Tensor& x);
Tensor abs_backward(const Tensor& grad, const Tensor& x);  // 0 at 0
Tensor exp_backward(const Tensor& grad, const Tensor& y);
Tensor exp2_backward(const Tensor& grad, const Tensor& y);
Tensor expm1_backward(const Tensor& grad, const Tensor& x);
Tensor log_backward(const Tensor& grad, const Tensor& x, double eps = 0);
Tensor log2_backward(const Tensor& grad, const Tensor& x, double eps = 0);
Tensor log10_backward(const Tensor& grad, const Tensor& x, double eps = 0);
Tensor log1p_backward(const Tensor& grad, const Tensor& x, double eps = 0);
Tensor sqrt_backward(const Tensor& grad, const Tensor& y, double eps = 0);
Tensor rsqrt_backward(const Tensor& grad, const Tensor& y);
Tensor cbrt_backward(const Tensor& grad, const Tensor& y);
Tensor sin_backward(const Tensor& grad, const Tensor& x);
Tensor cos_backward(const Tensor& grad, const Tensor& x);
Tensor tan_backward(const Tensor& grad, const Tensor& y);
Tensor asin_backward(const Tensor& grad, const Tensor& x);
Tensor acos_backward(const Tensor& grad, const Tensor& x);
Tensor atan_backward(const Tensor& grad, const Tensor& x);
Tensor sinh_backward(const Tensor& grad, const Tensor& x);
Tensor cosh_backward(const Tensor& grad, const Tensor& x);
Tensor tanh_backward(const Tensor& grad, const Tensor& y);
Tensor asinh_backward(const Tensor& grad, const Tensor& x);
Tensor acosh_backward(const Tensor& grad, const Tensor& x);
Tensor atanh_backward(const Tensor& grad, const Tensor& x);
Tensor erf_backward(const Tensor& grad, const Tensor& x);
Tensor erfc_backward(const Tensor& grad, const Tensor& x);
Tensor lgamma_backward(const Tensor& grad, const Tensor& x);
Tensor digamma_backward(const Tensor& grad, const Tensor& x);
Tensor polygamma_backward(const Tensor& grad, int n, const Tensor& x);

// Piecewise constant: the cotangent is 0, in grad's shape.
Tensor sign_backward(const Tensor& grad);
Tensor floor_backward(const Tensor& grad);
Tensor ceil_backward(const Tensor& grad);
Tensor round_backward(const Tensor& grad);
Tensor trunc_backward(const Tensor& grad);
Tensor frac_backward(const Tensor& grad);  // grad

Tensor cast_backward(const Tensor& grad, DType from);  // grad in the dtype of the operand

TensorPair where_backward(const Tensor& grad, const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor masked_fill_backward(const Tensor& grad, const Tensor& mask, const Tensor& x);  // to x
Tensor clamp_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lo, TensorOrScalar hi = {});

}  // namespace ebb
