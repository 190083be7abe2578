// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "graph/node.h"

// A matmul with these options first rounds its factors to eight bits: each row of the left one and each column of the
// right one is divided by a power of two so that its largest element fits, then rounded to e4m3 or e5m2. The sums are
// f32. The rounded factors are exact in bf16, too: a device without FP8 multiplies those. A row or column with a
// non-finite element gives NaN.
namespace ebb {

struct Fp8Product {
  bool fp8 = false;                            // true where there are options at all: printed
  bool left_e5m2 = false, right_e5m2 = false;  // cotangents: more range, fewer digits

  bool operator==(const Fp8Product&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("fp8", fp8);
    visit("left_e5m2", left_e5m2);
    visit("right_e5m2", right_e5m2);
  }
};
// "error <= 0.129·Σ|ab| + ...": the bound of ebb/ops/fp8.h for sums of k products, in print_schedule.
std::string describe_error(const Fp8Product& product, std::int64_t k, DType result);
inline bool is_fp8(const Attrs& matmul) { return matmul.options != nullptr; }

// a·b of two matrices with such rounding; the gradients round cotangents to e5m2.
Tensor fp8_product(const Tensor& a, const Tensor& b, bool left_e5m2, bool right_e5m2);

struct Fp8Format {
  int mantissa, bias;  // bits of the mantissa; the exponent 0 has this code
  int most_exponent;   // the largest number is 1.75 times this power of two
  double roundoff() const { return 1.0 / (2 << mantissa); }
  double least() const { return 1.0 / static_cast<double>(std::int64_t{1} << (bias - 1 + mantissa)); }  // above 0
  double largest() const { return 1.75 * static_cast<double>(1 << most_exponent); }
};
inline constexpr Fp8Format kE4M3{3, 7, 8}, kE5M2{2, 15, 15};
inline constexpr const Fp8Format& fp8_format(bool e5m2) { return e5m2 ? kE5M2 : kE4M3; }

}  // namespace ebb
