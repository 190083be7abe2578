// SPDX-License-Identifier: MIT
#include <initializer_list>
#include <limits>
#include <numbers>

#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "ops/build.h"

// The inverse of erf: a formula, with a rule of its own.
namespace ebb {
namespace {

// As in Giles, Approximating the erfinv function (2010): w = −log(1 − x²), a polynomial in w below 5 and in √w above.
// Fitted for floats, 1e-8 up to |x| = 1 − 2⁻²⁴; 2.24609375 is where the first coefficient is nearest to a float. With
// the roundings of f32 about 2 units in the last place.
Tensor inverse_of_erf_in_floats(const Tensor& x) {
  const auto polynomial = [](const Tensor& t, std::initializer_list<double> coefficients) {
    Tensor y;
    for (double c : coefficients) {
      const Tensor term = full({}, c, t.dtype());
      y = y.defined() ? y * t + term : term;
    }
    return y;
  };
  const Tensor w = -log((1 - x) * (1 + x));
  const Tensor near =
      polynomial(w - 2.24609375, {-8.79826256e-09, 4.32151559e-08, 3.98833038e-07, -4.23583879e-06, 9.15263229e-07,
                                  0.000221031747, -0.00147649425, -0.00313809584, 0.248504952, 1.43853796});
  const Tensor far = polynomial(sqrt(maximum(w, 5)) - 3,
                                {0.00011656306, -0.000308340095, -6.0820701e-05, 0.00148380455, -0.00359324901,
                                 0.00568751525, -0.00763878692, 0.00944514107, 1.00167513, 2.83297682});
  return x * where(w < 5, near, far);
}

constexpr double kHalfRootOfPi = 0.5 / std::numbers::inv_sqrtpi;

// A step of Halley's method triples the digits: with u = (erf y − x)/erf' y it is y − u/(1 + y·u). The error of erf y
// is taken from erfc where x is near ±1: 1 − |x| is exact there.
Tensor halley_step_of_erfinv(const Tensor& y, const Tensor& x) {
  const Tensor tail = abs(x) > 0.5, sign_of_x = where(x < 0, -1.0, ones_like(x));
  const Tensor error = where(tail, sign_of_x * ((1 - sign_of_x * x) - erfc(sign_of_x * y)), erf(y) - x);
  const Tensor u = error * (kHalfRootOfPi * exp(square(y)));
  return y - u / (1 + y * u);
}

// Where 1 − |x| is less than floats distinguish: from erfc y ≈ e^(−y²)/(y√π) with y² ≈ w in the logarithm, 3e-4.
Tensor first_guess_in_doubles(const Tensor& x) {
  constexpr double kFar = 12;
  const Tensor w = -log((1 - x) * (1 + x)), some = maximum(w, kFar);
  const Tensor far = sqrt(some + std::numbers::ln2 - 0.5 * log(std::numbers::pi * some));
  return where(w > kFar, where(x < 0, -far, far), inverse_of_erf_in_floats(x));
}

Tensor inverse_of_erf(const Tensor& x) {
  const Tensor wide = widen(x), inside = abs(wide) < 1, v = where(inside, wide, 0);
  const Tensor y = wide.dtype() == DType::f64
                       ? halley_step_of_erfinv(halley_step_of_erfinv(first_guess_in_doubles(v), v), v)
                       : inverse_of_erf_in_floats(v);
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor outside =
      where(wide == 1, infinity, where(wide == -1, -infinity, full(wide.shape(), nan, wide.dtype())));
  return cast(where(inside, y, outside), x.dtype());
}

}  // namespace

// y = erf⁻¹ x        dx = g·e^(y²)·√π/2
Tensor erfinv(const Tensor& x) {
  return custom_function([](const std::vector<Tensor>& in) { return inverse_of_erf(in[0]); },
                         [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) {
                           const Tensor y = erfinv(widen(in[0]));
                           return std::vector<Tensor>{cotangent(widen(grad) * (kHalfRootOfPi * exp(square(y))), in[0])};
                         },
                         {as_real(x)});
}

}  // namespace ebb
