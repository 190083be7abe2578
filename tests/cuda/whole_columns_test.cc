// SPDX-License-Identifier: MIT
// Sums of columns over a few rows, which one thread adds and finishes, on cuda:0: packs with tails, what follows from
// the sums, several of them, strided operands, and the same bits as beside more rows of zeros.
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

using ColumnsOnGpu = LibraryOnGpu;

TEST_P(ColumnsOnGpu, OfAFewRows) {
  using Inputs = std::vector<Tensor>;
  for (const std::int64_t rows : {2, 8, 9}) {
    for (const std::int64_t columns : {5, 4099}) {
      const Tensor x = real({rows, columns}), y = real({columns});
      const std::string of = fmt::format(" of {} x {}", rows, columns);
      compare("means and what follows" + of, {x, y}, [](const Inputs& in) {
        const Tensor m = mean(in[0], 0);
        return m * in[1] + sum(square(in[0] - in[1]), 0);
      });
      compare("largest" + of, {x}, [](const Inputs& in) { return max(in[0], 0) - min(in[0], 0); });
      compare("a gradient" + of, {x, y}, [](const Inputs& in) {
        const Tensor v = variable(in[1]);
        return backward(sum(exp(-in[0] * v)))[v];
      });
    }
  }
  compare("the middle of three", {real({3, 4, 5003})}, [](const Inputs& in) { return sum(in[0], 1); });
  compare("transposed", {real({5003, 6})}, [](const Inputs& in) { return sum(transpose(in[0], 0, 1), 0); });
  compare("repeated", {real({700, 3})}, [](const Inputs& in) {
    const Tensor v = variable(in[0]), y = repeat(v, {2, 3});
    return backward(sum(y * cast(1 + arange(9), y.dtype())))[v];
  });
}

TEST_P(ColumnsOnGpu, HaveTheBitsOfMoreRows) {
  const Tensor x = real({8, 5001}).to(kGpu), more = cat({x, zeros_like(x), zeros_like(x)}, 0).eval();
  EXPECT_EQ(sum(x, 0).to_vector<double>(), sum(more, 0).to_vector<double>());
}

INSTANTIATE_TEST_SUITE_P(Of, ColumnsOnGpu, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace ebb::testing
