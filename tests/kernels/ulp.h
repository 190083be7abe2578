// SPDX-License-Identifier: MIT
#pragma once
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

// Distance of a computed number from the exact one, in units of the last place of the exact one's binade.
namespace ebb::testing {

template <class T>
double ulp_error(T got, mpfr_t exact) {
  using Limits = std::numeric_limits<T>;
  const double nearest =
      sizeof(T) == 4 ? static_cast<double>(mpfr_get_flt(exact, MPFR_RNDN)) : mpfr_get_d(exact, MPFR_RNDN);
  if (std::isnan(nearest) || std::isnan(got)) return std::isnan(nearest) && std::isnan(got) ? 0 : HUGE_VAL;
  if (static_cast<double>(got) == nearest) return std::signbit(got) == std::signbit(nearest) ? 0 : HUGE_VAL;
  if (mpfr_inf_p(exact)) return HUGE_VAL;
  // Next to infinity one step is allowed: the overflow threshold is inside the last binade's unit.
  if (std::isinf(got) || std::isinf(nearest)) {
    const T finite = std::isinf(got) ? static_cast<T>(nearest) : got;
    return std::fabs(finite) == Limits::max() && std::signbit(got) == std::signbit(nearest) ? 1 : HUGE_VAL;
  }
  const long lowest = Limits::min_exponent - 1;  // exponent of the smallest normal number
  const long exponent = mpfr_zero_p(exact) ? lowest : std::max<long>(mpfr_get_exp(exact) - 1, lowest);
  mpfr_t difference;
  mpfr_init2(difference, 160);
  mpfr_sub_d(difference, exact, static_cast<double>(got), MPFR_RNDN);
  mpfr_abs(difference, difference, MPFR_RNDN);
  mpfr_mul_2si(difference, difference, Limits::digits - 1 - exponent, MPFR_RNDN);
  const double result = mpfr_get_d(difference, MPFR_RNDU);
  mpfr_clear(difference);
  return result;
}

}  // namespace ebb::testing
