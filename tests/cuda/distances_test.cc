// SPDX-License-Identifier: MIT
// Distances of rows on the GPU: the calls, and formulas of cdist and pdist.
#include "cuda/library_on_gpu.h"
#include "ops/distance_nodes.h"

namespace ebb::testing {
namespace {

class DistancesOnGpu : public LibraryOnGpu {};

TEST_P(DistancesOnGpu, Calls) {
  for (const std::int64_t p : {1, 2}) {
    compare("distances", {real({2, 7, 5}), real({2, 9, 5})},
            [p](const auto& x) { return distances_node(x, {.p = p}); });
    compare("distances of long rows", {real({1, 3, 300}), real({1, 20, 300})},
            [p](const auto& x) { return distances_node(x, {.p = p}); });
    compare("distances of a transposed matrix", {real({1, 5, 7}), real({1, 9, 5})}, [p](const auto& x) {
      return distances_node({transpose(x[0], 1, 2), x[1]}, {.p = p});
    });
    compare("distances of pairs", {real({19, 5})},
            [p](const auto& x) { return distances_node(x, {.p = p, .pairs = true}); });
    const double scale = GetParam() == DType::f64 ? 1e200 : 1e30;
    const Tensor large = cast(scale * randn({5, 70}, DType::f64), GetParam()).eval();
    const auto pairs = [p](const Tensor& x) { return distances_node({x}, {.p = p, .pairs = true}); };
    expect_same(pairs(large), pairs(large.to(kGpu)), "squares beyond the largest number");
  }
  const Tensor same = cast(tensor({{1.0, 2.0}, {1.0, 2.0}, {4.0, 6.0}}), GetParam()).eval();
  compare("equal rows", {same}, [](const auto& x) { return distances_node(x, {.pairs = true}); });
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor rows = cast(tensor({{1.0, 2.0}, {inf, 0.0}, {inf, 1.0}, {nan, 0.0}}), GetParam()).eval();
  for (const std::int64_t p : {1, 2})
    expect_same(distances_node({rows}, {.p = p, .pairs = true}),
                distances_node({rows.to(kGpu)}, {.p = p, .pairs = true}), "rows that are not finite");
}

// Operands on no device become a call before the device of the result is known.
TEST_P(DistancesOnGpu, OfNumbersOnNoDevice) {
  const Tensor here = real({6, 6});
  const auto distances = [&](const Tensor& with) {
    const Tensor x = reshape(sin(arange(0, 18, 1, GetParam())), {6, 3});
    return cdist(x, x) * with + cdist(x, x + 1, 1) + pdist(x)[0];
  };
  expect_same(distances(here), distances(here.to(kGpu)), "numbers on no device");
}

TEST_P(DistancesOnGpu, Formulas) {
  for (const double p : {1.0, 2.0, 3.0}) {
    compare("cdist", {real({2, 7, 5}), real({9, 5})}, [p](const auto& x) { return cdist(x[0], x[1], p); });
    compare("pdist", {real({19, 5})}, [p](const auto& x) { return pdist(x[0], p); });
    compare("pdist of long rows", {real({7, 133})}, [p](const auto& x) { return pdist(x[0], p); });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DistancesOnGpu, ::testing::Values(DType::f64, DType::f32), dtype_of_test);

}  // namespace
}  // namespace ebb::testing
