// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/memory.h"
#include "strips/compare.h"

// Strips that are cut into tiles: formulas of pairs whose rows are not needed as a whole.
namespace ebb {
namespace {

using testing::expect_same, testing::loops, testing::numbers, testing::planned, testing::results, testing::tiled_loops;
using Inputs = const std::vector<Tensor>&;

// Strips of 64 rows (and one of 8, which is held), tiles of 128 columns and more.
constexpr StripModel kTiles{.large = 256 << 10,
                            .large_enough_to_repeat = std::int64_t{1} << 40,
                            .strip_bytes = 128 << 10,
                            .least_rows = 32,
                            .tile_bytes = 32 << 10};
constexpr std::int64_t kPairs = 520, kTileWidth = 8;

Tensor random_rows(DType dtype = DType::f32, std::int64_t width = kTileWidth) {
  return cast(randn({kPairs, width}) * 0.5, dtype).eval();
}

// Labels 1 on the diagonal, -1 elsewhere; t: rows, rows, logarithm of the scale, bias.
Tensor siglip(Inputs t) {
  const Tensor z = matmul(t[0], transpose(t[1], 0, 1)) * exp(t[2]) + t[3];
  const Tensor same = unsqueeze(arange(kPairs), 1) == unsqueeze(arange(kPairs), 0);
  return -mean(log_sigmoid(where(same, z, -z)));
}
std::vector<Tensor> siglip_inputs(DType dtype) {
  return {random_rows(dtype), random_rows(dtype), full({}, 0.3, dtype).eval(), full({}, -1.0, dtype).eval()};
}

// Three products, as in strips; the gradient of the first factor is a sum over tiles, that of the second one over
// strips.
TEST(Tiles, SigmoidLossOfPairsInEveryDType) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const double most = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
    const std::vector<Tensor> inputs = siglip_inputs(dtype);
    expect_same(name(dtype).data(), siglip, inputs, 1, 3, kTiles, most);
    const UseStripModel tiles(kTiles);
    EXPECT_EQ(tiled_loops(planned(results(siglip, inputs))), 1) << name(dtype);
  }
}

TEST(Tiles, SiglipLossItself) {
  const std::vector<Tensor> inputs{random_rows(), random_rows()};
  const FunctionOfMany f = [](Inputs t) { return siglip_loss(t[0], t[1]); };
  expect_same("siglip_loss", f, inputs, 1, 3, kTiles);
  const UseStripModel tiles(kTiles);
  EXPECT_EQ(tiled_loops(planned(results(f, inputs))), 1);
}

// The factors swapped, a single gradient, weights of rows and of columns, sums of rows that are results.
TEST(Tiles, OtherFormulasOfPairs) {
  const Tensor x = random_rows(), y = random_rows(), w = rand({kPairs, 1}).eval(), u = rand({1, kPairs}).eval();
  const std::vector<std::pair<const char*, FunctionOfMany>> formulas{
      {"transposed", [](Inputs t) { return sum(softplus(transpose(matmul(t[0], transpose(t[1], 0, 1)), 0, 1))); }},
      {"one gradient", [&](Inputs t) { return sum(softplus(matmul(t[0], transpose(y, 0, 1)))) + mean(t[1]); }},
      {"weights", [&](Inputs t) { return mean(square(relu(1 + matmul(t[0], transpose(t[1], 0, 1)))) * w * u); }},
      {"rows of numbers", [&](Inputs t) {
         const Tensor z = tanh(matmul(t[0], transpose(t[1], 0, 1)));
         return sum(sum(z * w, 1) * sum(w, 1)) + sum(sum(z * u, 0) * sum(u, 0));
       }}};
  for (const auto& [name, f] : formulas) {
    SCOPED_TRACE(name);
    const auto plain = numbers(results(f, {x, y}));
    const UseStripModel model(kTiles);
    const Plan plan = planned(results(f, {x, y}));
    EXPECT_EQ(tiled_loops(plan), 1) << print(plan);
    const auto tiled = numbers(results(f, {x, y}));
    for (std::size_t k = 0; k < plain.size(); ++k) {
      double scale = 0;
      for (double g : plain[k]) scale = std::max(scale, std::abs(g));
      for (std::size_t i = 0; i < plain[k].size(); ++i)
        ASSERT_NEAR(tiled[k][i], plain[k][i], 2e-5 * scale) << "result " << k << ", element " << i;
    }
  }
}

// Rows that must be known as a whole, sums that are larger than what a tile saves, random numbers of the whole matrix,
// checks, which name the position: strips without tiles.
TEST(Tiles, FormulasThatAreNotCut) {
  const Tensor diagonal = arange(kPairs).eval();
  const auto tiled = [](const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
    const UseStripModel model(kTiles);
    const Plan plan = planned(results(f, inputs));
    EXPECT_EQ(loops(plan), 1) << print(plan);
    return tiled_loops(plan);
  };
  const auto product = [](Inputs t) { return matmul(t[0], transpose(t[1], 0, 1)); };
  const std::vector<Tensor> inputs{random_rows(), random_rows()};
  EXPECT_EQ(tiled([&](Inputs t) { return cross_entropy(product(t), diagonal); }, inputs), 0);
  EXPECT_EQ(tiled([&](Inputs t) { return sum(softplus(dropout(product(t), 0.3))); }, inputs), 0);
  const FunctionOfMany plain = [&](Inputs t) { return sum(softplus(product(t))); };
  EXPECT_EQ(tiled(plain, inputs), 1);
  EXPECT_EQ(tiled(plain, {random_rows(DType::f32, 80), random_rows(DType::f32, 80)}), 0);
}

// As kTiles, but products are recomputed.
constexpr StripModel kTilesAgain{.large = 256 << 10,
                                 .large_enough_to_repeat = 256 << 10,
                                 .strip_bytes = 128 << 10,
                                 .least_rows = 32,
                                 .tile_bytes = 32 << 10};

// Normalised rows and columns: maxima and sums of tiles first, then everything else.
TEST(Tiles, NormalisedRowsAndColumnsTakeFourProducts) {
  const Tensor diagonal = arange(kPairs).eval(), any = randint(0, kPairs, {kPairs}).eval();
  const std::vector<Tensor> inputs{random_rows(), random_rows()};
  const auto product = [](Inputs t) { return 8 * matmul(t[0], transpose(t[1], 0, 1)); };
  const auto expect = [&](const char* name, const FunctionOfMany& f, int loops_expected, int tiled_expected) {
    expect_same(name, f, inputs, loops_expected, 4, kTilesAgain);
    const UseStripModel tiles(kTilesAgain);
    const Plan plan = planned(results(f, inputs));
    EXPECT_EQ(tiled_loops(plan), tiled_expected) << name << '\n' << print(plan);
  };
  expect(
      "info_nce", [](Inputs t) { return info_nce(t[0], t[1]); }, 1, 1);
  expect(
      "cross_entropy", [&](Inputs t) { return cross_entropy(product(t), any); }, 1, 1);
  expect(
      "log_softmax", [&](Inputs t) { return mean(log_softmax(product(t), 1) * 0.5); }, 1, 1);
  expect(
      "both ways, the same targets",
      [&](Inputs t) {
        const Tensor z = product(t);
        return cross_entropy(z, diagonal) + cross_entropy(transpose(z, 0, 1), diagonal);
      },
      2, 2);
  expect(
      "both ways",
      [&](Inputs t) {
        const Tensor z = product(t);
        return cross_entropy(z, diagonal) + cross_entropy(transpose(z, 0, 1), any);
      },
      2, 2);
}

// Random numbers of the whole matrix keep a strip whole, whose targets were checked for tiles before.
TEST(Tiles, StripsThatCannotBeCutAfterAll) {
  const Tensor any = randint(0, kPairs, {kPairs}).eval();
  const std::vector<Tensor> inputs{random_rows(), random_rows()};
  const FunctionOfMany f = [&](Inputs t) {
    manual_seed(5);
    return cross_entropy(dropout(matmul(t[0], transpose(t[1], 0, 1)), 0.3), any);
  };
  expect_same("dropout", f, inputs, 1, 3, kTilesAgain);
  const UseStripModel tiles(kTilesAgain);
  EXPECT_EQ(tiled_loops(planned(results(f, inputs))), 0);
}

TEST(Tiles, RowsAndColumnsOfHalves) {
  const Tensor diagonal = arange(kPairs).eval();
  const std::vector<Tensor> inputs{random_rows(DType::bf16), random_rows(DType::bf16)};
  const FunctionOfMany f = [&](Inputs t) {
    const Tensor z = cast(matmul(t[0], transpose(t[1], 0, 1)), DType::f32) * 8;
    return cross_entropy(z, diagonal) + cross_entropy(transpose(z, 0, 1), diagonal);
  };
  expect_same("halves", f, inputs, 2, 4, kTilesAgain, 1.6e-2);
  const UseStripModel tiles(kTilesAgain);
  EXPECT_EQ(tiled_loops(planned(results(f, inputs))), 2) << print(planned(results(f, inputs)));
}

// Tiles of only -inf, a row of them, and an infinite number: the same results as without strips.
TEST(Tiles, InfiniteNumbers) {
  const Tensor x = random_rows(), y = random_rows();
  const Tensor row = unsqueeze(arange(kPairs), 1), column = unsqueeze(arange(kPairs), 0);
  const auto masked = [&] {
    const Tensor z = matmul(x, transpose(y, 0, 1)) - 900;
    Tensor m = where(column < 300, -std::numeric_limits<double>::infinity(), z);
    m = where(row == 70, -std::numeric_limits<double>::infinity(), m);
    return where(row == 71, where(column == 310, std::numeric_limits<double>::infinity(), m), m);
  };
  const auto all = [&] {
    return std::vector<Tensor>{logsumexp(masked(), {1}), logsumexp(masked(), {0}),
                               sum(log_softmax(where(column < 300, masked(), 1.0), 1), 1)};
  };
  const std::vector<Tensor> plain = all();
  eval(plain);
  const UseStripModel tiles(kTilesAgain);
  const std::vector<Tensor> tiled = all();
  EXPECT_GT(tiled_loops(planned(tiled)), 0) << print(planned(tiled));
  eval(tiled);
  for (std::size_t k = 0; k < plain.size(); ++k) {
    const std::vector<float> a = plain[k].to_vector<float>(), b = tiled[k].to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a[i])) {
        ASSERT_NEAR(a[i], b[i], 2e-5 * std::abs(a[i])) << k << ", " << i;
      } else {
        ASSERT_TRUE(std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i])
            << k << ", " << i << ": " << a[i] << ", " << b[i];
      }
    }
  }
}

TEST(Tiles, ErrorsNameTheRowOfATarget) {
  const UseStripModel tiles(kTilesAgain);
  std::vector<std::int64_t> classes(kPairs, 3);
  classes[171] = kPairs + 3;
  const Tensor target = from_data(classes, {kPairs}), x = random_rows(), y = random_rows();
  const FunctionOfMany f = [&](Inputs t) { return cross_entropy(matmul(t[0], transpose(t[1], 0, 1)), target); };
  const std::vector<Tensor> all = results(f, {x, y});
  EXPECT_EQ(tiled_loops(planned(all)), 1);
  try {
    eval(all);
    all[0].item();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cross_entropy: target[171] = 523 is outside [0, 520)");
    EXPECT_EQ(e.kind(), Error::Kind::index);
  }
}

// Long strips are faster, and GPU memory is rarely short: tiles are for budgets, and are tried before short strips.
TEST(Tiles, BudgetsOfAGpuTryThemFirst) {
  Device gpu;
  gpu.kind = Device::Kind::cuda;
  EXPECT_EQ(strip_model(gpu).tile_bytes, 0);
  const std::vector<StripModel> models = strips_within(std::size_t{1} << 30, gpu);
  ASSERT_GT(models.size(), 2u);
  EXPECT_GT(models[0].tile_bytes, 0);
  EXPECT_GT(models[0].large_enough_to_repeat, models[0].large);
  EXPECT_EQ(models[1].large_enough_to_repeat, models[1].large);
  const std::int64_t pairs = 32768;
  const Tensor x = expand(ones({1, 1024}, DType::bf16), {pairs, 1024});
  const FunctionOfMany siglip = [](Inputs t) { return siglip_loss(t[0], t[1]); };
  const FunctionOfMany nce = [](Inputs t) { return info_nce(t[0], t[1]); };
  const auto tiled = [&](const FunctionOfMany& f, const StripModel& model) {
    const UseStripModel use(model);
    return tiled_loops(planned(results(f, {x * 1, x * 1})));
  };
  EXPECT_EQ(tiled(siglip, models[0]), 1);
  EXPECT_EQ(tiled(nce, models[0]), 0);
  EXPECT_EQ(tiled(nce, models[1]), 1);
  for (const StripModel& model : strips_within(std::size_t{1} << 30, Device{})) EXPECT_EQ(model.tile_bytes, 0);
}

TEST(Tiles, CompiledFunctionsHaveTheSameBits) {
  const UseStripModel tiles(kTiles);
  const std::vector<Tensor> inputs = siglip_inputs(DType::f32);
  const auto expected = numbers(results(siglip, inputs));
  const auto compiled = compile(FunctionToMany([](Inputs t) { return results(siglip, t); }));
  for (int call = 0; call < 3; ++call) EXPECT_EQ(numbers(compiled(inputs)), expected);
}

TEST(Tiles, TheScheduleShowsThemAndThePeakCountsOne) {
  const std::vector<Tensor> inputs = siglip_inputs(DType::f32);
  const auto planned_with = [&](const StripModel& model) {
    const UseStripModel use(model);
    return planned(results(siglip, inputs));
  };
  StripModel strips = kTiles;
  strips.tile_bytes = 0;
  const Plan tiled = planned_with(kTiles), whole = planned_with(strips);
  const std::string text = print(tiled);
  EXPECT_NE(text.find("strips of 64 rows, 9 of them for 520 rows\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  tiles of 128 columns, 5 of them for 520 columns\n    call matmul f32[64, 8] f32[8, 128]"),
            std::string::npos)
      << text;
  EXPECT_LT(tiled.peak.of_strip * 2, whole.peak.of_strip) << text;
}

}  // namespace
}  // namespace ebb
