// SPDX-License-Identifier: MIT
#include "exhaustive_reference.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "core/format_error.h"
#include "sweep/reference_math.h"

namespace ebb {
namespace {

using Function = void (*)();

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

// By its name in the C library and its number of arguments; null if there is none, or no AVX2.
Function vector_function(const std::string& name, int arguments) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  static void* const library = dlopen("libmvec.so.1", RTLD_NOW);
  if (!library) return nullptr;
  const std::string symbol = (arguments == 1 ? "_ZGVdN4v_" : "_ZGVdN4vv_") + name;
  return reinterpret_cast<Function>(dlsym(library, symbol.c_str()));
}

using Four = double __attribute__((vector_size(32)));

// Computes the first numbers, as many as fill vectors, and returns how many these are.
__attribute__((target("avx2"))) std::size_t in_fours(Function function, const double* x, const double* y, double* out,
                                                     std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    Four a, b, result;
    std::memcpy(&a, x + i, sizeof a);
    if (y) {
      std::memcpy(&b, y + i, sizeof b);
      result = reinterpret_cast<Four (*)(Four, Four)>(function)(a, b);
    } else {
      result = reinterpret_cast<Four (*)(Four)>(function)(a);
    }
    std::memcpy(out + i, &result, sizeof result);
  }
  return i;
}

#else

Function vector_function(const std::string&, int) { return nullptr; }
std::size_t in_fours(Function, const double*, const double*, double*, std::size_t) { return 0; }

#endif

// Far out the asymptotic series is exact in double precision; close to zero −1/x − γ is; below −2²³ all numbers of f32
// are integers.
double quick_digamma(double x) {
  if (x >= 50) {
    const double z = 1 / (x * x);
    return std::log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z / 240)));
  }
  if (x != 0 && std::fabs(x) < 0x1p-26) return -1 / x - std::numbers::egamma;
  if (x <= -0x1p23) return std::numeric_limits<double>::quiet_NaN();
  return exact_value(Op::digamma, x);
}

// e^(x²)·erfc x far out, where the two factors are too far from 1 to be multiplied: eight terms of its series.
double far_erfcx(double x) {
  const double h = 1 / (2 * x * x);
  double series = 1;
  for (int k = 15; k > 0; k -= 2) series = 1 - k * h * series;
  return std::numbers::inv_sqrtpi / x * series;
}

}  // namespace

double exact_value(Op op, double x, double y) { return reference_real(op, {x, 0}, {y, 0}, {}).real; }

QuickReference::QuickReference(Op op) : op_(op) {
  switch (op) {
    case Op::erfcx:  // the square of a number of f32 is exact in double precision
      function_ = vector_function("exp", 1);
      second_ = vector_function("erfc", 1);
      if (!second_) function_ = nullptr;
      break;
    case Op::pow:
    case Op::atan2:
    case Op::hypot:
      function_ = vector_function(std::string(info(op).name), 2);
      break;
    default:
      function_ = vector_function(std::string(info(op).name), 1);
  }
}

double QuickReference::value(double x, double y) const {
  switch (op_) {
    case Op::add:
      return x + y;
    case Op::sub:
      return x - y;
    case Op::mul:
      return x * y;
    case Op::div:
      return x / y;
    case Op::square:
      return x * x;
    case Op::reciprocal:
      return 1 / x;
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::digamma:
      return quick_digamma(x);
    default:
      return exact_value(op_, x, y);
  }
}

void QuickReference::operator()(const double* x, const double* y, double* out, std::size_t n) const {
  std::size_t done = 0;
  if (function_ && op_ == Op::erfcx) {
    std::vector<double> squares(n), scale(n);
    for (std::size_t i = 0; i < n; ++i) squares[i] = x[i] * x[i];
    in_fours(function_, squares.data(), nullptr, scale.data(), n);
    done = in_fours(second_, x, nullptr, out, n);
    for (std::size_t i = 0; i < done; ++i) out[i] = x[i] > 25 ? far_erfcx(x[i]) : out[i] * scale[i];
  } else if (function_) {
    done = in_fours(function_, x, y, out, n);
  }
  for (std::size_t i = done; i < n; ++i) out[i] = value(x[i], y ? y[i] : 0);

  for (std::size_t i = 0; i < n; i += 64) {
    const double exact = exact_value(op_, x[i], y ? y[i] : 0);
    if (out[i] == exact || (std::isnan(out[i]) && std::isnan(exact))) continue;
    // An ulp of f32 is at least 2⁻²⁴ of the value, and 2⁻¹⁴⁹: subnormal doubles are far below it.
    require(std::fabs(out[i] - exact) <= kSlack * std::max(0x1p-24 * std::fabs(exact), 0x1p-149),
            "exhaustive: the quick reference of {} is {} and not {} at {:.17g}, {:.17g}", info(op_).name, out[i], exact,
            x[i], y ? y[i] : 0);
  }
}

}  // namespace ebb
