// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "schedule/graphs.h"
#include "schedule/strips.h"
#include "strips/compare.h"

// Random formulas of two products: whatever the pass does with them, the numbers are those without strips.
namespace ebb {
namespace {

using testing::loops, testing::planned, testing::tiled_loops;

constexpr std::int64_t kPoolRows = 75, kPoolColumns = 42, kPoolWidth = 5;
constexpr StripModel kTiny{
    .large = 1 << 10, .large_enough_to_repeat = 1 << 10, .strip_bytes = 1 << 10, .least_rows = 4};
constexpr StripModel kTinyTiles{
    .large = 1 << 10, .large_enough_to_repeat = 1 << 10, .strip_bytes = 4 << 10, .least_rows = 4, .tile_bytes = 3 << 9};

struct Pool {
  std::mt19937 g;
  std::vector<Tensor> wide, row, column;
  Tensor index, square_matrix, narrow_matrix;

  const Tensor& any(const std::vector<Tensor>& from) { return from[g() % from.size()]; }

  void step() {
    const Tensor a = any(wide), b = any(wide), r = any(row), c = any(column);
    switch (g() % 14) {
      case 0:
        return wide.push_back(tanh(a + 0.3 * b));
      case 1:
        return wide.push_back(a * sigmoid(r));
      case 2:
        return wide.push_back(a + c);
      case 3:
        return row.push_back(mean(a, 1, true));
      case 4:
        return row.push_back(0.3 * logsumexp(a, {1}, true));
      case 5:
        return column.push_back(mean(a, 0, true));
      case 6:
        return wide.push_back(a * (1 + 0.1 * mean(b)));
      case 7:
        return wide.push_back(softmax(a, 1));
      case 8:
        return wide.push_back(softmax(a, 0));
      case 9:
        return row.push_back(gather(a, 1, index));
      case 10:
        return wide.push_back(tanh(matmul(a, square_matrix)));
      case 11:
        return row.push_back(r * cos(r));
      case 12:
        return row.push_back(mean(matmul(a, narrow_matrix), 1, true));
      default:
        return wide.push_back(where(b > 0.01, a, -c));
    }
  }
};

Tensor loss_of(unsigned seed, const std::vector<Tensor>& t, const Tensor& index) {
  Pool p;
  p.g.seed(seed);
  p.wide = {matmul(t[0], transpose(t[1], 0, 1)), matmul(t[2], transpose(t[3], 0, 1))};
  p.row = {t[4]};
  p.column = {t[5]};
  p.square_matrix = t[6];
  p.narrow_matrix = t[7];
  p.index = index;
  const auto steps = static_cast<int>(2 + p.g() % 10);
  for (int s = 0; s < steps; ++s) p.step();
  return mean(square(p.wide.back())) + mean(p.row.back() * 0.7) + mean(p.column.back()) +
         0.5 * mean(tanh(p.any(p.wide)));
}

// Returns how many programs were computed in strips, and in tiles.
std::pair<int, int> compare_programs(const StripModel& strip_model, unsigned programs) {
  manual_seed(11);
  std::vector<Tensor> leaves;
  for (const Shape& shape : {Shape{kPoolRows, kPoolWidth}, Shape{kPoolColumns, kPoolWidth},
                             Shape{kPoolRows, kPoolWidth}, Shape{kPoolColumns, kPoolWidth}, Shape{kPoolRows, 1},
                             Shape{1, kPoolColumns}, Shape{kPoolColumns, kPoolColumns}, Shape{kPoolColumns, 3}})
    leaves.push_back((0.4 * randn(shape, DType::f64)).eval());
  const Tensor index = randint(0, kPoolColumns, {kPoolRows, 1}).eval();
  std::pair<int, int> count;
  for (unsigned seed = 0; seed < programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto all = [&] {
      auto [loss, grads] =
          value_and_grad(FunctionOfMany([&](const std::vector<Tensor>& t) { return loss_of(seed, t, index); }))(leaves);
      grads.push_back(loss);
      return grads;
    };
    std::vector<std::vector<double>> plain, strips;
    const auto numbers = [](const std::vector<Tensor>& tensors) {
      eval(tensors);
      std::vector<std::vector<double>> out;
      for (const Tensor& t : tensors) out.push_back(t.to_vector<double>());
      return out;
    };
    plain = numbers(all());
    const UseStripModel model(strip_model);
    const Plan plan = planned(all());
    count.first += loops(plan) > 0;
    count.second += tiled_loops(plan) > 0;
    strips = numbers(all());
    for (std::size_t k = 0; k < plain.size(); ++k) {
      for (std::size_t i = 0; i < plain[k].size(); ++i) {
        if (std::abs(plain[k][i] - strips[k][i]) <= 1e-12) continue;
        ADD_FAILURE() << plain[k][i] << " is " << strips[k][i] << " in gradient " << k << ", element " << i << '\n'
                      << print(plan);
        return count;
      }
    }
  }
  return count;
}

TEST(RandomStrips, GiveTheNumbersWithoutStrips) { EXPECT_GT(compare_programs(kTiny, 300).first, 100); }

TEST(RandomStrips, GiveTheNumbersInTilesToo) {
  const auto [strips, tiles] = compare_programs(kTinyTiles, 200);
  EXPECT_GT(strips, 66);
  EXPECT_GT(tiles, 20);
}

}  // namespace
}  // namespace ebb
