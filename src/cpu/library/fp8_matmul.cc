// SPDX-License-Identifier: MIT
// Products of factors rounded to eight bits: see calls/fp8_product.h. The rounded numbers are exact in bf16.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "calls/fp8_product.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

// The power of two that divides a line with this largest magnitude.
float scale_of(float most, const Fp8Format& f) {
  if (!(most <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::quiet_NaN();
  if (most == 0) return 1;
  const auto bits = std::bit_cast<std::uint32_t>(most);
  const int above = (bits & 0x7FFFFF) > 0x600000;  // 1.75
  const int exponent = static_cast<int>(bits >> 23) - f.most_exponent + above;
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::max(exponent, 1)) << 23);
}

// x rounded to the format, ties to even. No |x| is above the largest number.
float rounded(float x, const Fp8Format& f) {
  const int dropped = 23 - f.mantissa;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t even = bits >> dropped & 1;
  const float usual = std::bit_cast<float>((bits + (1u << (dropped - 1)) - 1 + even) & ~((1u << dropped) - 1));
  // Below the least normal number steps are equal: those of 1.5·2²³ steps.
  const float large = static_cast<float>(0x1.8p23 * f.least());
  const float small = std::copysign((std::fabs(x) + large) - large, x);
  return std::fabs(x) < static_cast<float>(f.least() * (1 << f.mantissa)) ? small : usual;
}

float value(float x) { return x; }
float value(Half x) { return to_float(x); }
float value(BFloat16 x) { return to_float(x); }

// Lines of k elements each, rounded: element (line, i) of `data` is at line·line_step + i·step.
struct RoundedLines {
  std::vector<BFloat16> data;
  std::int64_t line_step, step;
};

template <class T>
RoundedLines rounded_lines(const T* x, std::int64_t lines, std::int64_t k, std::int64_t line_step, std::int64_t step,
                           const Fp8Format& format) {
  const bool beside = step == 1 || line_step != 1;  // lines are one after the other, or interleaved
  RoundedLines to{std::vector<BFloat16>(static_cast<std::size_t>(lines * k)), beside ? k : 1, beside ? 1 : lines};
  constexpr std::int64_t kLines = 64;
  parallel_for((lines + kLines - 1) / kLines, [&](std::int64_t task) {
    const std::int64_t first = task * kLines, count = std::min(kLines, lines - first);
    float most[kLines] = {}, up[kLines], down[kLines];
    const auto each = [&](auto&& body) {
      const std::int64_t outer = beside ? count : k, inner = beside ? k : count;
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t i = 0; i < inner; ++i) body(beside ? o : i, beside ? i : o);
      }
    };
    each([&](std::int64_t l, std::int64_t i) {
      const float a = std::fabs(value(x[(first + l) * line_step + i * step]));
      most[l] = a > most[l] || a != a ? a : most[l];
    });
    for (std::int64_t l = 0; l < count; ++l) {
      up[l] = scale_of(most[l], format);
      down[l] = 1 / up[l];
    }
    each([&](std::int64_t l, std::int64_t i) {
      const float v = value(x[(first + l) * line_step + i * step]);
      to.data[static_cast<std::size_t>((first + l) * to.line_step + i * to.step)] =
          bfloat16_from(up[l] * rounded(v * down[l], format));
    });
  });
  return to;
}

RoundedLines lines_of(const View& x, int along, const Fp8Format& format) {
  const int across = 1 - along;
  return with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return rounded_lines(static_cast<const T*>(x.data), x.shape[across], x.shape[along], x.strides[across],
                           x.strides[along], format);
    } else {
      return RoundedLines{};  // unreachable: fp8_linear takes no other
    }
  });
}

}  // namespace

void run_fp8_matmul(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const auto& o = options_as<Fp8Product>(call.attrs);
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  const RoundedLines rows = lines_of(a, 1, fp8_format(o.left_e5m2)), columns = lines_of(b, 0, fp8_format(o.right_e5m2));
  const Matrix<float> left{rows.data.data(), rows.line_step, rows.step, DType::bf16},
      right{columns.data.data(), columns.step, columns.line_step, DType::bf16};
  if (out.dtype == DType::f32)
    return gemm<float>(m, n, k, 1, left, right, call.adds ? 1.0F : 0.0F, static_cast<float*>(out.data), n);
  gemm_to_halves(m, n, k, left, right, out.dtype, out.data, n);
}

}  // namespace ebb::cpu
