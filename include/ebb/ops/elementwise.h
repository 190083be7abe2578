// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>

#include "ebb/tensor.h"

// Arithmetic, unary functions, comparison and selection. Operands broadcast by NumPy's rule and are promoted to a
// common dtype (ebb/dtype.h); names and defaults are PyTorch's. Real functions convert integer tensors to f32.
namespace ebb {

// A parameter that takes a tensor or a number, so that one signature serves add(x, y), add(x, 2) and add(2, x). It only
// refers to the tensor it was made from: use it for parameters, never for variables. Default-constructed ({}) it means
// "none".
class TensorOrScalar {
 public:
  TensorOrScalar() = default;
  TensorOrScalar(const Tensor& tensor) : tensor_(&tensor), given_(true) {}
  TensorOrScalar(Scalar scalar) : scalar_(scalar), given_(true) {}
  template <class T>
  requires std::is_arithmetic_v<T> TensorOrScalar(T number) : scalar_(number), given_(true) {}

  bool given() const { return given_; }
  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  Scalar scalar() const { return scalar_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_ = 0;
  bool given_ = false;
};

// ---- arithmetic -----------------------------------------------------------------------------------------------------

Tensor add(TensorOrScalar a, TensorOrScalar b);
Tensor sub(TensorOrScalar a, TensorOrScalar b);
Tensor mul(TensorOrScalar a, TensorOrScalar b);
Tensor div(TensorOrScalar a, TensorOrScalar b);            // true division: integers give f32
Tensor pow(TensorOrScalar base, TensorOrScalar exponent);  // 0⁰ = 1, with gradient 0 to both
Tensor floor_divide(TensorOrScalar a, TensorOrScalar b);   // floor(a / b), also for negative integers
Tensor remainder(TensorOrScalar a, TensorOrScalar b);      // a − b·floor(a / b): has the sign of b
Tensor maximum(TensorOrScalar a, TensorOrScalar b);        // NaN if either is; -0 < +0; half the gradient each at a tie
Tensor minimum(TensorOrScalar a, TensorOrScalar b);        // NaN if either is; -0 < +0; half the gradient each at a tie
Tensor atan2(TensorOrScalar y, TensorOrScalar x);          // gradient 0 at the origin
Tensor hypot(TensorOrScalar a, TensorOrScalar b);          // gradient 0 at the origin
Tensor xlogy(TensorOrScalar x, TensorOrScalar y);          // x·log y; 0 where x = 0, unless y is NaN
Tensor fma(TensorOrScalar x, TensorOrScalar m, TensorOrScalar a);            // x·m + a, rounded once
Tensor affine(const Tensor& x, TensorOrScalar m, TensorOrScalar a);          // x·m + a, the same
Tensor lerp(const Tensor& start, const Tensor& end, TensorOrScalar weight);  // start + weight·(end − start)

Tensor operator+(TensorOrScalar a, TensorOrScalar b);
Tensor operator-(TensorOrScalar a, TensorOrScalar b);
Tensor operator*(TensorOrScalar a, TensorOrScalar b);
Tensor operator/(TensorOrScalar a, TensorOrScalar b);
Tensor operator-(const Tensor& x);

// ---- unary functions ------------------------------------------------------------------------------------------------

Tensor neg(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);  // gradient 0 at 0
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor cbrt(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor erfcx(const Tensor& x);  // e^(x²)·erfc x: the tail of erfc, which does not underflow
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor polygamma(int n, const Tensor& x);  // the n-th derivative of digamma
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // ties to even
Tensor trunc(const Tensor& x);
Tensor frac(const Tensor& x);  // x − trunc x

Tensor cast(const Tensor& x, DType dtype);  // floats to integers: towards zero, NaN becomes 0; u8 keeps the low 8 bits

// ---- comparison, logic: bool tensors, no gradient -------------------------------------------------------------------

Tensor eq(TensorOrScalar a, TensorOrScalar b);
Tensor ne(TensorOrScalar a, TensorOrScalar b);
Tensor lt(TensorOrScalar a, TensorOrScalar b);
Tensor le(TensorOrScalar a, TensorOrScalar b);
Tensor gt(TensorOrScalar a, TensorOrScalar b);
Tensor ge(TensorOrScalar a, TensorOrScalar b);

// Elementwise, as in NumPy: a bool tensor, not a single bool (for that see allclose).
Tensor operator==(TensorOrScalar a, TensorOrScalar b);
Tensor operator!=(TensorOrScalar a, TensorOrScalar b);
Tensor operator<(TensorOrScalar a, TensorOrScalar b);
Tensor operator<=(TensorOrScalar a, TensorOrScalar b);
Tensor operator>(TensorOrScalar a, TensorOrScalar b);
Tensor operator>=(TensorOrScalar a, TensorOrScalar b);

Tensor logical_and(const Tensor& a, const Tensor& b);  // nonzero counts as true
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});  // |a − b| <= atol + rtol·|b|
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});   // computed now

// ---- selection ------------------------------------------------------------------------------------------------------

Tensor where(const Tensor& mask, TensorOrScalar a, TensorOrScalar b);  // a where the mask is true, b elsewhere
Tensor masked_fill(const Tensor& x, const Tensor& mask, TensorOrScalar value);
// min(max(x, lo), hi). Either bound may be omitted: clamp(x, {}, 1). The gradient passes on [lo, hi], inclusive.
Tensor clamp(const Tensor& x, TensorOrScalar lo, TensorOrScalar hi = {});

}  // namespace ebb
