// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/tile/kernels.h"
#include "kernels/ulp.h"

// Every transcendental function on every target against MPFR: random points, the edges and the special values.
namespace ebb::cpu {
namespace {

using MpfrUnary = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);
using MpfrBinary = int (*)(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);

struct Function {
  Op op;
  MpfrUnary exact;
  double low, high;  // where random points are drawn evenly, besides the logarithmic ones over all magnitudes
  double f32_bound, f64_bound;
};

int exact_rsqrt(mpfr_t r, const mpfr_t x, mpfr_rnd_t rnd) {
  if (mpfr_zero_p(x)) {  // MPFR returns +infinity for -0, IEEE -infinity
    mpfr_set_inf(r, mpfr_signbit(x) ? -1 : 1);
    return 0;
  }
  return mpfr_rec_sqrt(r, x, rnd);
}

// e^(x²)·erfc x with many digits; from 10⁴ on, where erfc leaves MPFR's range, by the asymptotic series.
int exact_erfcx(mpfr_t r, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_t a, b;
  mpfr_inits2(160, a, b, nullptr);
  mpfr_sqr(a, x, MPFR_RNDN);
  if (mpfr_cmp_d(x, 1e4) < 0 || mpfr_nan_p(x)) {
    mpfr_exp(a, a, MPFR_RNDN);
    mpfr_erfc(b, x, MPFR_RNDN);
    mpfr_mul(r, a, b, rnd);
  } else {
    mpfr_ui_div(a, 1, a, MPFR_RNDN);
    mpfr_div_2ui(a, a, 1, MPFR_RNDN);  // 1/(2x²)
    mpfr_set_ui(b, 1, MPFR_RNDN);
    for (long k = 21; k > 0; k -= 2) {  // 1 − k·a·b
      mpfr_mul(b, b, a, MPFR_RNDN);
      mpfr_mul_si(b, b, k, MPFR_RNDN);
      mpfr_ui_sub(b, 1, b, MPFR_RNDN);
    }
    mpfr_const_pi(a, MPFR_RNDN);
    mpfr_rec_sqrt(a, a, MPFR_RNDN);
    mpfr_mul(b, b, a, MPFR_RNDN);
    mpfr_div(r, b, x, rnd);
  }
  mpfr_clears(a, b, nullptr);
  return 0;
}

int exact_log1p_unit(mpfr_t r, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_t u;
  mpfr_init2(u, 160);
  mpfr_set(u, x, MPFR_RNDN);
  if (mpfr_cmp_ui(x, 0) < 0) mpfr_set_ui(u, 0, MPFR_RNDN);
  if (mpfr_cmp_ui(x, 1) > 0) mpfr_set_ui(u, 1, MPFR_RNDN);
  mpfr_log1p(r, u, rnd);
  mpfr_clear(u);
  return 0;
}

const Function kFunctions[] = {
    {Op::exp, mpfr_exp, -110, 90, 1.001, 4},    {Op::exp2, mpfr_exp2, -155, 130, 1.001, 4},
    {Op::expm1, mpfr_expm1, -20, 20, 1.001, 4}, {Op::log, mpfr_log, 0, 4, 1.001, 4},
    {Op::log2, mpfr_log2, 0, 4, 1.001, 4},      {Op::log10, mpfr_log10, 0, 4, 1.001, 4},
    {Op::log1p, mpfr_log1p, -1, 4, 1.001, 4},   {Op::log1p_unit, exact_log1p_unit, -1, 2, 1.001, 4},
    {Op::sqrt, mpfr_sqrt, 0, 4, 0.51, 0.51},    {Op::rsqrt, exact_rsqrt, 0, 4, 1.001, 4},
    {Op::cbrt, mpfr_cbrt, -8, 8, 1.001, 4},     {Op::sin, mpfr_sin, -1000, 1000, 1.001, 4},
    {Op::cos, mpfr_cos, -1000, 1000, 1.001, 4}, {Op::tan, mpfr_tan, -1000, 1000, 1.001, 4},
    {Op::asin, mpfr_asin, -1, 1, 1.001, 4},     {Op::acos, mpfr_acos, -1, 1, 1.001, 4},
    {Op::atan, mpfr_atan, -10, 10, 1.001, 4},   {Op::sinh, mpfr_sinh, -90, 90, 1.001, 4},
    {Op::cosh, mpfr_cosh, -90, 90, 1.001, 4},   {Op::tanh, mpfr_tanh, -10, 10, 1.001, 4},
    {Op::asinh, mpfr_asinh, -10, 10, 1.001, 4}, {Op::acosh, mpfr_acosh, 1, 10, 1.001, 4},
    {Op::atanh, mpfr_atanh, -1, 1, 1.001, 4},   {Op::erf, mpfr_erf, -6, 6, 1.001, 4},
    {Op::erfc, mpfr_erfc, -6, 28, 1.001, 4},    {Op::erfcx, exact_erfcx, -4, 40, 1.001, 4},
};

template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> points = {0,
                           Limits::infinity(),
                           Limits::max(),
                           Limits::min(),
                           Limits::denorm_min(),
                           Limits::epsilon(),
                           std::nextafter(Limits::min(), T(0)),
                           1,
                           2,
                           3,
                           T(0.5),
                           std::nextafter(T(1), T(2)),
                           std::nextafter(T(1), T(0)),
                           T(10),
                           T(100),
                           T(1e10),
                           T(1e20),
                           T(1.5707963267948966),
                           T(3.141592653589793),
                           T(88.72283),
                           T(103.97),
                           T(709.782712893384),
                           T(745.13),
                           T(127.99999),
                           T(149),
                           T(1023.9999),
                           T(1074)};
  const std::size_t n = points.size();
  for (std::size_t i = 0; i < n; ++i) points.push_back(-points[i]);
  points.push_back(Limits::quiet_NaN());
  return points;
}

// A number of any magnitude: random bits, where most are equally likely to be tiny or huge.
template <class T>
T any_magnitude(std::mt19937_64& rng) {
  using Limits = std::numeric_limits<T>;
  std::uniform_real_distribution<double> exponent(Limits::min_exponent - Limits::digits, Limits::max_exponent),
      mantissa(1, 2);
  const double e = std::floor(exponent(rng));
  const T value = std::ldexp(static_cast<T>(mantissa(rng)), static_cast<int>(e) - 1);
  return rng() & 1 ? value : -value;
}

template <class T>
constexpr RegType kReg = sizeof(T) == 4 ? RegType::f32 : RegType::f64;

constexpr int kRandomPoints = 15000;

template <class T>
std::vector<T> points_of(const Function& f) {
  std::mt19937_64 rng(static_cast<int>(f.op));
  std::vector<T> points = edges<T>();
  std::uniform_real_distribution<double> even(f.low, f.high), near_one(0.9, 1.1), moderate(-40, 40);
  for (int i = 0; i < kRandomPoints; ++i) {
    points.push_back(static_cast<T>(even(rng)));
    points.push_back(static_cast<T>(near_one(rng)));
    points.push_back(static_cast<T>(std::exp2(moderate(rng)) * (rng() & 1 ? 1 : -1)));
    if (i % 4 == 0) points.push_back(any_magnitude<T>(rng));
    // f64 functions that overflow do so far beyond the range that is even for f32.
    if (sizeof(T) == 8 && i % 4 == 0) points.push_back(static_cast<T>(even(rng) * 8));
  }
  return points;
}

template <class T>
void check_unary(const Function& f, double bound) {
  const std::vector<T> points = points_of<T>(f);
  std::vector<mpfr_t> exact(points.size());
  mpfr_t x;
  mpfr_init2(x, 53);
  for (std::size_t i = 0; i < points.size(); ++i) {
    mpfr_init2(exact[i], 90);
    mpfr_set_d(x, static_cast<double>(points[i]), MPFR_RNDN);
    f.exact(exact[i], x, MPFR_RNDN);
  }
  mpfr_clear(x);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const TileKernels& kernels = *targets.begin_[t];
    std::vector<T> got(points.size());
    const ElementwiseFn fn = kernels.elementwise(f.op, kReg<T>, 0);
    ASSERT_NE(fn, nullptr);
    fn(got.data(), points.data(), nullptr, nullptr, points.size());
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double error = testing::ulp_error(got[i], exact[i]);
      if (error > worst) worst = error, where = i;
    }
    const std::string name = std::string(kernels.target) + "_" + std::string(info(f.op).name);
    ::testing::Test::RecordProperty(name, std::to_string(worst));
    EXPECT_LE(worst, bound) << name << (sizeof(T) == 4 ? " f32" : " f64") << " at " << std::hexfloat << points[where]
                            << std::defaultfloat << " = " << points[where] << ": got " << got[where] << ", exact "
                            << mpfr_get_d(exact[where], MPFR_RNDN);
    if (std::getenv("EBB_PRINT_ULP"))
      std::printf("%-8s %-6s %s %.3f at %.9g\n", kernels.target, std::string(info(f.op).name).c_str(),
                  sizeof(T) == 4 ? "f32" : "f64", worst, static_cast<double>(points[where]));
  }
  for (mpfr_t& e : exact) mpfr_clear(e);
}

void PrintTo(const Function& f, std::ostream* out) { *out << ebb::info(f.op).name; }

class Accuracy : public ::testing::TestWithParam<Function> {};
TEST_P(Accuracy, F32) { check_unary<float>(GetParam(), GetParam().f32_bound); }
TEST_P(Accuracy, F64) { check_unary<double>(GetParam(), GetParam().f64_bound); }
INSTANTIATE_TEST_SUITE_P(Math, Accuracy, ::testing::ValuesIn(kFunctions),
                         [](const auto& p) { return std::string(ebb::info(p.param.op).name); });

// The parts of digamma cancel at its roots, one between any two poles: floats next to the first 1,500, one of which
// (-66.7959061) is 6e-10 from its root.
TEST(AccuracyOfDigamma, BesideItsRoots) {
  const TileKernels& kernels = *tile_kernel_targets().begin_[0];
  const auto double_digamma = [&](float x) {
    const double wide = static_cast<double>(x);
    double y = 0;
    kernels.elementwise(Op::digamma, RegType::f64, 0)(&y, &wide, nullptr, nullptr, 1);
    return y;
  };
  std::vector<float> points;
  for (int pole = -1500; pole < 0; ++pole) {  // from minus infinity next to one to infinity next to the next
    float low = std::nextafter(static_cast<float>(pole), 0.0f),
          high = std::nextafter(static_cast<float>(pole + 1), low);
    while (std::nextafter(low, high) != high) {
      const float middle = low + (high - low) / 2;
      (double_digamma(middle) < 0 ? low : high) = middle;
    }
    for (int k = 0; k < 3; ++k) low = std::nextafter(low, static_cast<float>(pole));
    for (int k = 0; k < 8; ++k, low = std::nextafter(low, 0.0f)) points.push_back(low);
  }
  EXPECT_NE(std::find(points.begin(), points.end(), -66.7959061f), points.end());
  std::vector<float> got(points.size());
  kernels.elementwise(Op::digamma, RegType::f32, 0)(got.data(), points.data(), nullptr, nullptr, points.size());
  mpfr_t x, exact;
  mpfr_init2(x, 53), mpfr_init2(exact, 90);
  for (std::size_t i = 0; i < points.size(); ++i) {
    mpfr_set_d(x, static_cast<double>(points[i]), MPFR_RNDN);
    mpfr_digamma(exact, x, MPFR_RNDN);
    ASSERT_LE(testing::ulp_error(got[i], exact), 0.501) << points[i] << " is " << got[i];
  }
  mpfr_clears(x, exact, nullptr);
}

template <class T>
void check_binary(Op op, MpfrBinary exact_fn, double bound, double low, double high) {
  std::mt19937_64 rng(7);
  std::vector<T> a, b;
  const std::vector<T> special = edges<T>();
  for (T x : special)
    for (T y : special) a.push_back(x), b.push_back(y);
  std::uniform_real_distribution<double> even(low, high), moderate(-10, 10), near_one(0.9, 1.1);
  for (int i = 0; i < 2 * kRandomPoints; ++i) {
    a.push_back(static_cast<T>(even(rng))), b.push_back(static_cast<T>(moderate(rng)));
    if (i % 2) a.push_back(static_cast<T>(near_one(rng))), b.push_back(static_cast<T>(moderate(rng) * 100));
    if (i % 4 == 0) a.push_back(any_magnitude<T>(rng)), b.push_back(any_magnitude<T>(rng));
    if (i % 4 == 0) a.push_back(std::fabs(any_magnitude<T>(rng))), b.push_back(static_cast<T>(moderate(rng)));
    if (i % 4 == 1)
      a.push_back(static_cast<T>(-even(rng))), b.push_back(static_cast<T>(static_cast<int>(moderate(rng))));
  }
  mpfr_t x, y, exact;
  mpfr_init2(x, 53), mpfr_init2(y, 53), mpfr_init2(exact, 90);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const TileKernels& kernels = *targets.begin_[t];
    std::vector<T> got(a.size());
    kernels.elementwise(op, kReg<T>, 0)(got.data(), a.data(), b.data(), nullptr, a.size());
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      mpfr_set_d(x, static_cast<double>(a[i]), MPFR_RNDN);
      mpfr_set_d(y, static_cast<double>(b[i]), MPFR_RNDN);
      exact_fn(exact, x, y, MPFR_RNDN);
      const double error = testing::ulp_error(got[i], exact);
      if (error > worst) worst = error, where = i;
    }
    EXPECT_LE(worst, bound) << kernels.target << " " << info(op).name << (sizeof(T) == 4 ? " f32" : " f64") << " of "
                            << std::hexfloat << a[where] << ", " << b[where] << std::defaultfloat << ": got "
                            << got[where];
    if (std::getenv("EBB_PRINT_ULP"))
      std::printf("%-8s %-6s %s %.3f at %.9g %.9g\n", kernels.target, std::string(info(op).name).c_str(),
                  sizeof(T) == 4 ? "f32" : "f64", worst, static_cast<double>(a[where]), static_cast<double>(b[where]));
  }
  mpfr_clears(x, y, exact, nullptr);
}

TEST(AccuracyOfTwo, Pow) {
  check_binary<float>(Op::pow, mpfr_pow, 2, 0, 20);
  check_binary<double>(Op::pow, mpfr_pow, 1.001, 0, 20);
}
// One exponent for a whole tile: some have special paths.
TEST(AccuracyOfTwo, PowByOneNumber) {
  std::mt19937_64 rng(8);
  std::vector<float> bases = edges<float>();
  for (int i = 0; i < kRandomPoints; ++i) bases.push_back(any_magnitude<float>(rng));
  mpfr_t x, y, exact;
  mpfr_init2(x, 53), mpfr_init2(y, 53), mpfr_init2(exact, 90);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const ElementwiseFn fn = targets.begin_[t]->elementwise(Op::pow, RegType::f32, 2);
    for (float power : {0.5f, 1.5f, 2.5f, 3.0f, 4.0f, -0.5f, 0.0f, 1.25f, 7.0f}) {
      std::vector<float> got(bases.size());
      fn(got.data(), bases.data(), &power, nullptr, bases.size());
      mpfr_set_d(y, static_cast<double>(power), MPFR_RNDN);
      for (std::size_t i = 0; i < bases.size(); ++i) {
        mpfr_set_d(x, static_cast<double>(bases[i]), MPFR_RNDN);
        mpfr_pow(exact, x, y, MPFR_RNDN);
        ASSERT_LE(testing::ulp_error(got[i], exact), 1)
            << targets.begin_[t]->target << " pow(" << bases[i] << ", " << power << ") is " << got[i];
      }
    }
  }
  mpfr_clears(x, y, exact, nullptr);
}
TEST(AccuracyOfTwo, Atan2) {
  check_binary<float>(Op::atan2, mpfr_atan2, 2, -20, 20);
  check_binary<double>(Op::atan2, mpfr_atan2, 4, -20, 20);
}
TEST(AccuracyOfTwo, Hypot) {
  check_binary<float>(Op::hypot, mpfr_hypot, 2, -20, 20);
  check_binary<double>(Op::hypot, mpfr_hypot, 4, -20, 20);
}

}  // namespace
}  // namespace ebb::cpu
