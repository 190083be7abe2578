// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "strips/compare.h"

// Losses of pairs that normalise rows and columns: the product is computed twice, and never held.
namespace ebb {
namespace {

using testing::expect_same, testing::kSmallStrips, testing::loops, testing::planned, testing::products,
    testing::results;
using Inputs = const std::vector<Tensor>&;

FunctionOfMany both_ways(const Tensor& of_rows, const Tensor& of_columns, double scale = 3) {
  return [=](Inputs t) {
    const Tensor z = cast(matmul(t[0], transpose(t[1], 0, 1)), t[0].dtype() == DType::f64 ? DType::f64 : DType::f32);
    return cross_entropy(scale * z, of_rows) + cross_entropy(transpose(scale * z, 0, 1), of_columns);
  };
}

// Any numbers of rows and columns, including ignored classes.
TEST(Pairs, InBothDirectionsOfOddSizes) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<std::int64_t>(from, to)(random); };
  const auto classes = [&](std::int64_t n, std::int64_t of) {
    std::vector<std::int64_t> all;
    for (std::int64_t k = 0; k < n; ++k) all.push_back(draw(0, 9) == 0 ? -100 : draw(0, static_cast<int>(of) - 1));
    return from_data(all, {n});
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const std::int64_t rows = draw(180, 330), columns = draw(180, 330), width = draw(1, 24);
    const std::string name = std::to_string(rows) + " x " + std::to_string(width) + " x " + std::to_string(columns);
    const std::vector<Tensor> inputs{cast(randn({rows, width}) * 0.5, dtype).eval(),
                                     cast(randn({columns, width}) * 0.5, dtype).eval()};
    const double most = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : 1.6e-2;
    expect_same(name.c_str(), both_ways(classes(rows, columns), classes(columns, rows)), inputs, 2, 4, kSmallStrips,
                most);
  }
}

// By default products are recomputed where that reduces the peak considerably, however large they are themselves.
TEST(Pairs, AreNotHeldByDefault) {
  Device gpu;
  gpu.kind = Device::Kind::cuda;
  StripModel model = strip_model(gpu);
  const std::int64_t pairs = 32768;
  const Tensor x = expand(ones({1, 1024}, DType::bf16), {pairs, 1024}), same = arange(pairs);
  const auto plan = [&] {
    const UseStripModel use(model);
    return planned(results(both_ways(same, same), {x * 1, x * 1}));
  };
  const Plan again = plan();
  EXPECT_EQ(loops(again), 2) << print(again);
  EXPECT_EQ(products(again), 4) << print(again);
  EXPECT_LT(again.peak.bytes, std::size_t{3} << 29) << print(again);
  model.saved_enough_to_repeat = std::int64_t{1} << 40;
  const Plan held = plan();
  EXPECT_EQ(loops(held), 0) << print(held);
  EXPECT_EQ(products(held), 3) << print(held);
  EXPECT_GT(held.peak.bytes, again.peak.bytes + (std::size_t{2} << 30)) << print(held);
}

TEST(Pairs, ErrorsNameTheTargetOfEitherDirection) {
  const UseStripModel strips(kSmallStrips);
  const std::int64_t rows = 210, columns = 260;
  const Tensor x = (randn({rows, 9}) * 0.3).eval(), y = (randn({columns, 9}) * 0.3).eval();
  const auto error = [&](std::int64_t row, std::int64_t column) -> std::string {
    std::vector<std::int64_t> of_rows(rows, 3), of_columns(columns, 4);
    if (row >= 0) of_rows[static_cast<std::size_t>(row)] = columns + 2;
    if (column >= 0) of_columns[static_cast<std::size_t>(column)] = rows + 1;
    const auto all = results(both_ways(from_data(of_rows, {rows}), from_data(of_columns, {columns})), {x, y});
    EXPECT_EQ(loops(planned(all)), 2);
    try {
      eval(all);
      for (const Tensor& t : all) cast(t, DType::f32).to_vector<float>();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(-1, -1), "");
  EXPECT_NE(error(171, -1).find("[171]"), std::string::npos) << error(171, -1);
  EXPECT_NE(error(171, -1).find("262"), std::string::npos) << error(171, -1);
  EXPECT_NE(error(-1, 33).find("[33]"), std::string::npos) << error(-1, 33);
  EXPECT_NE(error(-1, 33).find("211"), std::string::npos) << error(-1, 33);
}

}  // namespace
}  // namespace ebb
