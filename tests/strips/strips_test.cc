// SPDX-License-Identifier: MIT
#include "schedule/strips.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ebb/memory.h"
#include "schedule/graphs.h"
#include "strips/compare.h"

// Products that are never held: formulas of them are computed strip by strip, values and gradients in one loop.
namespace ebb {
namespace {

using testing::Budget, testing::expect_same, testing::kSmallStrips, testing::loops, testing::numbers, testing::planned,
    testing::products, testing::results;

// Those of kSmallStrips, but nothing is computed twice.
constexpr StripModel kSmallOnce{
    .large = 64 << 10, .large_enough_to_repeat = std::int64_t{1} << 40, .strip_bytes = 32 << 10, .least_rows = 32};

constexpr std::int64_t kRows = 210, kClasses = 260, kWidth = 17;

// A head of a network: rows, weights, bias; and target classes.
struct Head {
  Tensor x = randn({kRows, kWidth}).eval(), w = (randn({kClasses, kWidth}) * 0.3).eval(),
         b = (randn({kClasses}) * 0.1).eval();
  Tensor target = randint(0, kClasses, {kRows}).eval();
  std::vector<Tensor> all() const { return {x, w, b}; }
};
Tensor logits(const std::vector<Tensor>& t, std::size_t first = 0) {
  return matmul(t[first], transpose(t[first + 1], 0, 1)) + t[first + 2];
}

TEST(Strips, SmallProductsAreHeld) {
  const Head h;
  const auto f = [&](const std::vector<Tensor>& t) { return cross_entropy(logits(t), h.target); };
  EXPECT_EQ(loops(planned(results(f, h.all()))), 0);
}

TEST(Strips, CrossEntropyTakesThreeProducts) {
  const Head h;
  using Inputs = const std::vector<Tensor>&;
  expect_same(
      "cross_entropy", [&](Inputs t) { return cross_entropy(logits(t), h.target); }, h.all(), 1, 3);
  expect_same(
      "smoothed", [&](Inputs t) { return cross_entropy(logits(t), h.target, {.label_smoothing = 0.1}); }, h.all(), 1,
      3);
}

// Random numbers are counted from the first element of the whole, in every strip: those of a row are the same with and
// without strips, in the forward pass and in the backward pass.
TEST(Strips, DropoutBehindAProductDrawsTheNumbersOfTheWhole) {
  const Head h;
  using Inputs = const std::vector<Tensor>&;
  const auto loss = [&](Inputs t, Reduction reduction) {
    manual_seed(7);
    return cross_entropy(dropout(logits(t), 0.3), h.target, {.reduction = reduction});
  };
  expect_same(
      "dropout", [&](Inputs t) { return loss(t, Reduction::mean); }, h.all(), 1, 3);
  expect_same(
      "axes of rows",
      [&](Inputs t) {
        manual_seed(7);
        const Tensor z = dropout(reshape(logits(t), {3, kRows / 3, kClasses}), 0.5);
        return mean(logsumexp(z, -1) - 0.1 * sum(z, -1));
      },
      h.all(), 1, 3);
  expect_same(
      "made again in a second round",
      [&](Inputs t) {
        manual_seed(7);
        const Tensor rows = logsumexp(dropout(logits(t), 0.3), -1);
        return square(mean(rows)) + mean(rows);
      },
      h.all(), 2, 4);
  const std::vector<float> whole = loss(h.all(), Reduction::none).to_vector<float>();
  const UseStripModel strips(kSmallStrips);
  const Tensor rows = loss(h.all(), Reduction::none);
  EXPECT_EQ(loops(planned({rows})), 1);
  EXPECT_EQ(rows.to_vector<float>(), whole);
}

// A compiled function draws new numbers in every call: those that the function itself would draw.
TEST(Strips, CompiledDropoutDrawsAnew) {
  const Head h;
  const auto f = [&](const std::vector<Tensor>& t) {
    return std::vector<Tensor>{cross_entropy(dropout(logits(t), 0.3), h.target, {.reduction = Reduction::none})};
  };
  const UseStripModel strips(kSmallStrips);
  const auto compiled = compile(f);
  std::vector<std::vector<float>> ours, theirs;
  manual_seed(11);
  for (int k = 0; k < 3; ++k) ours.push_back(compiled(h.all())[0].to_vector<float>());
  manual_seed(11);
  for (int k = 0; k < 3; ++k) theirs.push_back(f(h.all())[0].to_vector<float>());
  EXPECT_EQ(ours, theirs);
  EXPECT_NE(ours[0], ours[1]);
}

// For halves, too: where a device's products add the bias before rounding, those of a strip do.
TEST(Strips, RowsHaveTheBitsTheyHaveWithoutStrips) {
  const Head h;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = cast(h.x, dtype).eval(), w = cast(h.w, dtype).eval(), b = cast(h.b, dtype).eval();
    const auto rows = [&] { return logits({x, w, b}); };
    const auto per_row = [&] { return cross_entropy(rows(), h.target, {.reduction = Reduction::none}); };
    const auto dx = grad(Function([&](const Tensor& t) { return cross_entropy(logits({t, w, b}), h.target); }));
    const auto numbers_of = [](const Tensor& t) { return cast(t, DType::f32).to_vector<float>(); };
    const std::vector<float> layer = numbers_of(rows()), losses = numbers_of(per_row()), gradient = numbers_of(dx(x));
    const UseStripModel strips({.large = kSmallStrips.large / 2,
                                .large_enough_to_repeat = kSmallStrips.large_enough_to_repeat,
                                .strip_bytes = kSmallStrips.strip_bytes / 2,
                                .least_rows = kSmallStrips.least_rows});
    ASSERT_EQ(loops(planned({rows()})), 1);
    ASSERT_EQ(loops(planned({per_row()})), 1);
    ASSERT_EQ(loops(planned({dx(x)})), 1);
    EXPECT_EQ(numbers_of(rows()), layer);
    EXPECT_EQ(numbers_of(per_row()), losses);
    EXPECT_EQ(numbers_of(dx(x)), gradient);
  }
}

TEST(Strips, FormulasThatNobodyWroteAKernelFor) {
  const Head h;
  using Inputs = const std::vector<Tensor>&;
  expect_same(
      "z-loss", [&](Inputs t) { return mean(square(logsumexp(logits(t), -1))); }, h.all(), 1, 3);
  expect_same(
      "entropy",
      [&](Inputs t) {
        const Tensor logp = log_softmax(logits(t), -1);
        return mean(sum(exp(logp) * logp, -1));
      },
      h.all(), 1, 3);
  expect_same(
      "softcap", [&](Inputs t) { return cross_entropy(30.0 * tanh(logits(t) / 30.0), h.target); }, h.all(), 1, 3);
  expect_same(
      "focal", [&](Inputs t) { return softmax_focal_loss(logits(t), h.target); }, h.all(), 1, 3);
}

TEST(Strips, TwoHeads) {
  const Head student, teacher;
  using Inputs = const std::vector<Tensor>&;
  const auto jsd = [&](Inputs t) {
    const Tensor p = log_softmax(logits(t), -1), q = log_softmax(logits(t, 3), -1);
    const Tensor m = log(0.5 * (exp(p) + exp(q)));
    return mean(0.5 * (sum(exp(p) * (p - m), -1) + sum(exp(q) * (q - m), -1)));
  };
  expect_same("jsd", jsd, {student.x, student.w, student.b, teacher.x, teacher.w, teacher.b}, 1, 6);
  const auto distilled = [&](Inputs t) {
    const Tensor p = log_softmax(logits(t) / 2.0, -1), q = log_softmax(logits(teacher.all()) / 2.0, -1);
    return mean(sum(exp(q) * (q - p), -1));
  };
  expect_same("distillation", distilled, student.all(), 1, 4);
}

// Labels 1 on the diagonal, -1 elsewhere, made of ramps that start in each strip at the strip's first row.
TEST(Strips, PairsOfABatchAreNeverHeld) {
  const Tensor x = randn({kRows, kWidth}).eval(), y = randn({kRows, kWidth}).eval();
  using Inputs = const std::vector<Tensor>&;
  const auto siglip = [&](Inputs t) {
    const Tensor z = matmul(t[0], transpose(t[1], 0, 1)) * exp(t[2]) + t[3];
    const Tensor same = unsqueeze(arange(kRows), 1) == unsqueeze(arange(kRows), 0);
    return -sum(log_sigmoid(where(same, z, -z))) / static_cast<double>(kRows);
  };
  expect_same("siglip", siglip, {x, y, full({}, 0.3).eval(), full({}, -1.0).eval()}, 1, 3);
  const Tensor diagonal = arange(kRows).eval();
  const auto one_way = [&](Inputs t) { return cross_entropy(matmul(t[0], transpose(t[1], 0, 1)), diagonal); };
  expect_same("one way", one_way, {x, y}, 1, 3);
  // Sums over the other side first, in strips of columns; then everything else.
  const auto both_ways = [&](Inputs t) {
    const Tensor z = matmul(t[0], transpose(t[1], 0, 1));
    return cross_entropy(z, diagonal) + cross_entropy(transpose(z, 0, 1), diagonal);
  };
  expect_same("both ways", both_ways, {x, y}, 2, 4);
}

// A number of the whole batch in the middle: two rounds, and the product is recomputed; or no strips.
TEST(Strips, AMeanThatIsThenSquaredTakesTwoRounds) {
  const Head h;
  const auto f = [&](const std::vector<Tensor>& t) { return square(cross_entropy(logits(t), h.target)); };
  expect_same("again", f, h.all(), 2, 4);
  expect_same("held", f, h.all(), 0, 3, kSmallOnce);
}

// Each part of a sum is f32, and the sum is rounded once: gradients of halves are as accurate as without strips.
TEST(Strips, EveryDType) {
  const Head h;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    std::vector<Tensor> inputs;
    for (const Tensor& t : h.all()) inputs.push_back(cast(t, dtype).eval());
    const double most = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
    expect_same(
        name(dtype).data(), [&](const std::vector<Tensor>& t) { return cross_entropy(logits(t), h.target); }, inputs, 1,
        3, kSmallStrips, most);
  }
}

TEST(Strips, BatchesOfSequences) {
  const Tensor x = randn({7, 30, kWidth}).eval(), w = (randn({kClasses, kWidth}) * 0.3).eval();
  const Tensor target = randint(0, kClasses, {7, 30}).eval(), weight = rand({7, 1}).eval();
  const auto f = [&](const std::vector<Tensor>& t) {
    const Tensor logp = log_softmax(matmul(t[0], transpose(t[1], 0, 1)), -1);
    const Tensor chosen = squeeze(gather(logp, -1, unsqueeze(target, -1)), -1);
    return -mean(chosen * weight);  // one number per sequence
  };
  expect_same("sequences", f, {x, w}, 1, 3);
  // Sums of sequences, as in preference losses, are known after all strips.
  const auto preference = [&](const std::vector<Tensor>& t) {
    const Tensor logp = log_softmax(matmul(t[0], transpose(t[1], 0, 1)), -1);
    return -mean(log_sigmoid(sum(squeeze(gather(logp, -1, unsqueeze(target, -1)), -1), -1)));
  };
  expect_same("preference", preference, {x, w}, 2, 4);
}

// Labels shifted against the logits: the slice moves to the hidden states, whichever way it is written.
TEST(Strips, ASliceOfRowsIsASliceOfTheFactor) {
  const std::int64_t batch = 6, length = 40;
  const Tensor x = randn({batch, length, kWidth}).eval(), w = (randn({kClasses, kWidth}) * 0.3).eval(),
               v = (randn({kWidth, kClasses}) * 0.3).eval();
  const Tensor target = randint(0, kClasses, {batch, length - 1}).eval(), flat = reshape(target, {-1}).eval();
  const auto wt = [](const Tensor& t) { return transpose(t, 0, 1); };
  const std::vector<std::pair<const char*, FunctionOfMany>> formulas{
      {"reshaped",
       [&](const std::vector<Tensor>& t) {
         const Tensor z = narrow(matmul(t[0], wt(t[1])), 1, 0, length - 1);
         return cross_entropy(reshape(z, {-1, kClasses}), flat);
       }},
      {"the last ones",
       [&](const std::vector<Tensor>& t) {
         const Tensor z = narrow(matmul(t[0], t[2]), 1, 1, length - 1);
         return mean(logsumexp(z, -1) * cast(target, DType::f32));
       }},
      {"one axis",
       [&](const std::vector<Tensor>& t) {
         const Tensor z = matmul(reshape(t[0], {-1, kWidth}), t[2]);
         return mean(square(logsumexp(narrow(z, 0, 6, batch * (length - 1)), -1)) * cast(flat, DType::f32));
       }},
      {"with a bias of the slice", [&](const std::vector<Tensor>& t) {
         const Tensor z = narrow(matmul(t[0], wt(t[1])), 1, 0, length - 1) + sum(t[2], 0);
         return cross_entropy(reshape(30 * tanh(z / 30), {-1, kClasses}), flat);
       }}};
  for (const auto& [name, f] : formulas) {
    SCOPED_TRACE(name);
    const auto plain = numbers(results(f, {x, w, v}));
    const UseStripModel strips(kSmallStrips);
    const Plan plan = planned(results(f, {x, w, v}));
    EXPECT_EQ(loops(plan), 1);
    EXPECT_EQ(products(plan), 3);
    for (const PlanStep& s : plan.steps) {
      for (std::int32_t out : s.outputs)
        EXPECT_LT(plan.graph.values[out].shape.numel(), batch * (length - 1) * kClasses) << info(s.op).name;
    }
    const auto in_strips = numbers(results(f, {x, w, v}));
    for (std::size_t k = 0; k < plain.size(); ++k) {
      double largest = 0;
      for (double g : plain[k]) largest = std::max(largest, std::fabs(g));
      for (std::size_t i = 0; i < plain[k].size(); ++i)
        ASSERT_NEAR(in_strips[k][i], plain[k][i], 2e-5 * largest) << k << " at " << i;
    }
  }
  // Two different slices need all rows.
  const UseStripModel strips(kSmallStrips);
  const Plan both = planned(results(
      [&](const std::vector<Tensor>& t) {
        const Tensor z = matmul(t[0], wt(t[1]));
        return sum(exp(narrow(z, 1, 0, length - 1)) * narrow(z, 1, 1, length - 1));
      },
      {x, w}));
  EXPECT_EQ(loops(both), 0);
}

TEST(Strips, ANetworkOfSeveralLayers) {
  const Tensor x = randn({kRows, kWidth}).eval(), w1 = (randn({kWidth, kClasses}) * 0.3).eval(),
               w2 = (randn({kClasses, kClasses}) * 0.1).eval(), w3 = (randn({kClasses, 5}) * 0.1).eval();
  const Tensor target = randint(0, 5, {kRows}).eval();
  const auto f = [&](const std::vector<Tensor>& t) {
    return cross_entropy(matmul(relu(matmul(relu(matmul(x, t[0])), t[1])), t[2]), target);
  };
  // All layers, forwards and backwards, in one loop.
  expect_same("network", f, {w1, w2, w3}, 1, 8);
}

TEST(Strips, ArgmaxAndLogProbabilities) {
  const Head h;
  const auto both = [&] {
    const Tensor z = logits(h.all());
    return std::vector<Tensor>{argmax(z, -1), gather(log_softmax(z, -1), -1, unsqueeze(h.target, -1))};
  };
  const std::vector<Tensor> plain = both();
  const std::vector<std::int64_t> best = plain[0].to_vector<std::int64_t>();
  const std::vector<float> logp = plain[1].to_vector<float>();
  const UseStripModel strips(kSmallStrips);
  const std::vector<Tensor> again = both();
  EXPECT_EQ(loops(planned(again)), 1);
  eval(again);
  EXPECT_EQ(again[0].to_vector<std::int64_t>(), best);
  EXPECT_EQ(again[1].to_vector<float>(), logp);
}

TEST(Strips, CompiledFunctionsRunThem) {
  const Head h;
  const UseStripModel strips(kSmallStrips);
  const FunctionOfMany f = [&](const std::vector<Tensor>& t) { return cross_entropy(logits(t), h.target); };
  const auto expected = numbers(results(f, h.all()));
  const auto compiled = compile(FunctionToMany([&](const std::vector<Tensor>& t) { return results(f, t); }));
  for (int call = 0; call < 3; ++call) EXPECT_EQ(numbers(compiled(h.all())), expected);
}

// Numbers that are not part of a plan: the same plan runs with others.
TEST(Strips, ConstantsAreThoseOfTheRun) {
  const Head h;
  const auto at = [&](double temperature) {
    return numbers(results(
        [&](const std::vector<Tensor>& t) { return cross_entropy(logits(t) * temperature, h.target); }, h.all()));
  };
  const auto plain = std::pair(at(0.5), at(3.0));
  const UseStripModel strips(kSmallStrips);
  EXPECT_NEAR(at(0.5)[0][0], plain.first[0][0], 1e-5);
  EXPECT_NEAR(at(3.0)[0][0], plain.second[0][0], 1e-5);
}

TEST(Strips, ErrorsCountRowsFromTheFirst) {
  const UseStripModel strips(kSmallStrips);
  const Head h;
  std::vector<std::int64_t> classes = h.target.to_vector<std::int64_t>();
  classes[171] = kClasses + 3;
  const Tensor target = from_data(classes, {kRows});
  try {
    cross_entropy(logits(h.all()), target).item();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[171] = 263"), std::string::npos) << e.what();
  }
}

// Twice as many rows take no more memory besides inputs and results.
TEST(Strips, MemoryDoesNotGrowWithTheRows) {
  const UseStripModel strips(
      {.large = 1 << 20, .large_enough_to_repeat = 1 << 20, .strip_bytes = 1 << 19, .least_rows = 64});
  const Tensor w = (randn({2000, 16}) * 0.1).eval();
  const auto beyond = [&](std::int64_t rows) {
    const Tensor x = randn({rows, 16}).eval(), target = randint(0, 2000, {rows}).eval();
    const std::size_t before = memory_stats(default_device()).live;
    reset_peak_memory(default_device());
    const auto all = results(
        [&](const std::vector<Tensor>& t) { return cross_entropy(matmul(t[0], transpose(t[1], 0, 1)), target); },
        {x, w});
    eval(all);
    return static_cast<double>(memory_stats(default_device()).peak - before);
  };
  // Threads keep memory for tiles from the first time on that they get some of the work.
  double few = beyond(1024), many = beyond(8192);
  for (int again = 0; again < 4; ++again) few = std::min(few, beyond(1024)), many = std::min(many, beyond(8192));
  EXPECT_LT(many - few, 7 * 1024 * 256.0);  // the gradient of x, and some numbers per row; logits are 8000 bytes
  EXPECT_LT(few, 4.0 * 2000 * 64 * 8);
}

// ---- budgets --------------------------------------------------------------------------------------------------------

TEST(MemoryBudget, PlansStayWithinItWhereTheyCan) {
  const Tensor x = randn({2048, 16}).eval(), w = (randn({1000, 16}) * 0.1).eval();
  const Tensor target = randint(0, 1000, {2048}).eval();
  const FunctionOfMany f = [&](const std::vector<Tensor>& t) {
    return square(cross_entropy(matmul(t[0], transpose(t[1], 0, 1)), target));
  };
  const auto plain = numbers(results(f, {x, w}));
  const std::size_t most = planned(results(f, {x, w})).peak.bytes;
  EXPECT_GT(most, 2048u * 1000 * 4 * 2);  // logits and their gradient
  for (const std::size_t budget : {most, most / 2, most / 8}) {
    const Budget within(budget);
    const Plan plan = planned(results(f, {x, w}));
    EXPECT_LE(plan.peak.bytes, budget);
    EXPECT_EQ(loops(plan) > 0, budget < most);
    const std::size_t before = memory_stats(default_device()).live;
    reset_peak_memory(default_device());
    const auto in_strips = numbers(results(f, {x, w}));
    EXPECT_LE(memory_stats(default_device()).peak - before, budget + budget / 20);  // blocks are rounded up
    EXPECT_NEAR(in_strips[0][0], plain[0][0], 1e-4 * plain[0][0]);
  }
}

TEST(MemoryBudget, NamesTheLargestTensorsWhereItCannotBeKept) {
  const Tensor x = randn({300, 300}).eval();
  const Budget within(100 << 10);
  try {
    exp(matmul(x, x)).to_vector<float>();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::memory);
    EXPECT_NE(std::string(e.what()).find("f32[300, 300] of exp 351.6 KiB"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("the budget is 100.0 KiB"), std::string::npos) << e.what();
  }
}

TEST(MemoryBudget, TheScheduleShowsStripsAndThePeak) {
  const Head h;
  const UseStripModel strips(kSmallStrips);
  const std::string text = print_schedule({cross_entropy(logits(h.all()), h.target)});
  EXPECT_NE(text.find("strips of 32 rows, 7 of them for 210 rows\n  call matmul f32[32, 17] f32[17, 260]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\npeak about "), std::string::npos) << text;
}

}  // namespace
}  // namespace ebb
