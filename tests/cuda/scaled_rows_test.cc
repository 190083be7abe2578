// SPDX-License-Identifier: MIT
// linear_cross_entropy of bf16 with rounded logits: rows computed as exponentials, against formulas in f64. Inputs are
// small integers times a power of two, so that logits are exact in bf16 and in every order of summation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "both_heads.h"
#include "cuda/backend.h"
#include "cuda/compile_for_gpu.h"
#include "cuda/emulated_device.h"
#include "cuda/library/exponential_product.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"
#include "expect_error.h"

namespace ebb::testing {
namespace {

struct ScaledInputs {
  Tensor x, head, target, weight;
};
ScaledInputs scaled_inputs(std::int64_t rows, std::int64_t width, std::int64_t classes, double factor) {
  manual_seed(static_cast<std::uint64_t>(rows + width + classes));
  const Tensor target = randint(0, classes, {rows});
  return {cast(factor * cast(randint(-2, 3, {rows, width}), DType::f32), DType::bf16).eval(),
          cast(randint(-1, 2, {classes, width}), DType::bf16).eval(),
          where(remainder(arange(rows), 5) == 3, -100, target).eval(), cast(0.5 + rand({classes}), DType::f32).eval()};
}
struct Results {
  Tensor losses, dx, dhead;
};
LinearCrossEntropyOptions options(std::int64_t chunk) {
  LinearCrossEntropyOptions o;
  o.reduction = Reduction::none;
  o.round_logits = true;
  o.chunk = chunk;
  return o;
}
Tensor cotangent(std::int64_t rows) { return (1 + 0.25 * cast(remainder(arange(rows), 7), DType::f32)).eval(); }

Results scaled_on_gpu(const ScaledInputs& in, LinearCrossEntropyOptions o, bool weighted = false) {
  const Tensor x = variable(in.x.to(kGpu)), head = variable(in.head.to(kGpu));
  if (weighted) o.weight = in.weight.to(kGpu);
  const Tensor losses = linear_cross_entropy(x, head, in.target.to(kGpu), o);
  const Gradients g = backward(sum(losses * cotangent(in.x.size(0)).to(kGpu)));
  return {losses, g[x], g[head]};
}
Results by_formula(const ScaledInputs& in, bool weighted) {
  const Tensor x = cast(in.x, DType::f64), head = cast(in.head, DType::f64);
  const Tensor z = matmul(x, transpose(head, 0, 1)), counts = in.target != -100;
  const Tensor y = where(counts, in.target, 0), lse = logsumexp(z, 1);
  const Tensor own = squeeze(gather(z, 1, unsqueeze(y, 1)), 1);
  Tensor w = cast(counts, DType::f64);
  if (weighted) w = w * cast(index_select(in.weight, 0, y), DType::f64);
  const Tensor each = w * cast(cotangent(in.x.size(0)), DType::f64);
  const Tensor dz = unsqueeze(each, 1) * (softmax(z, 1) - cast(one_hot(y, in.head.size(0)), DType::f64));
  return {w * (lse - own), matmul(dz, head), matmul(transpose(dz, 0, 1), x)};
}
// Relative to the largest.
void expect_near(const Tensor& found, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.shape(), wanted.shape()) << what;
  const std::vector<double> a = found.to_vector<double>(), b = wanted.to_vector<double>();
  double largest = 0;
  for (const double v : b) largest = std::max(largest, std::fabs(v));
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * largest)
        << what << ", element " << i << ": " << a[i] << ", not " << b[i];
  }
}

class ScaledRows : public BothHeads {};

struct ScaledCase {
  std::int64_t rows, width, classes, chunk;
  double factor;  // with 2 and more, many rows have sums that are too large for their first reference
};
constexpr ScaledCase kScaledCases[] = {{11, 8, 8, 0, 0.5},    {11, 8, 2056, 4, 0.125}, {140, 72, 520, 64, 0.125},
                                       {40, 72, 264, 16, 4},  {7, 200, 264, 0, 2},     {1, 64, 256, 0, 0.25},
                                       {11, 8, 517, 4, 0.125}};
// Several tiles of rows and columns for every multiprocessor; sizes that are not multiples of a tile.
constexpr ScaledCase kLargeCases[] = {{300, 136, 1000, 128, 0.0625},
                                      {1100, 768, 50304, 512, 0.03125},
                                      {513, 64, 32000, 0, 0.125},
                                      {300, 136, 1003, 128, 0.0625}};
std::vector<ScaledCase> cases() {
  std::vector<ScaledCase> all(std::begin(kScaledCases), std::end(kScaledCases));
  if (!device_is_emulated()) all.insert(all.end(), std::begin(kLargeCases), std::end(kLargeCases));
  return all;
}

TEST_P(ScaledRows, HaveTheLossesAndGradientsOfTheFormula) {
  for (const ScaledCase& c : cases()) {
    const ScaledInputs in = scaled_inputs(c.rows, c.width, c.classes, c.factor);
    for (const bool weighted : {false, true}) {
      const std::string what = fmt::format("{} rows of {}, {} classes, {} at a time{}", c.rows, c.width, c.classes,
                                           c.chunk, weighted ? ", with weights" : "");
      const Results found = scaled_on_gpu(in, options(c.chunk), weighted), wanted = by_formula(in, weighted);
      // Numbers of bf16 are rounded once, in the gradient of the head twice.
      expect_near(found.losses, wanted.losses, 0.004, what + ", losses");
      expect_near(found.dx, wanted.dx, 0.008, what + ", gradient of x");
      expect_near(found.dhead, wanted.dhead, 0.016, what + ", gradient of the head");
    }
  }
}

TEST_P(ScaledRows, AreTheSameWithoutGradientsAndInOtherCompany) {
  const ScaledInputs in = scaled_inputs(140, 72, 520, 0.125);
  const Results whole = scaled_on_gpu(in, options(0)), parts = scaled_on_gpu(in, options(64));
  const Tensor alone = linear_cross_entropy(in.x.to(kGpu), in.head.to(kGpu), in.target.to(kGpu), options(0));
  EXPECT_EQ(alone.to_vector<float>(), whole.losses.to_vector<float>());
  EXPECT_EQ(parts.losses.to_vector<float>(), whole.losses.to_vector<float>());
  EXPECT_EQ(cast(parts.dx, DType::f32).to_vector<float>(), cast(whole.dx, DType::f32).to_vector<float>());
  // Reused memory: ignored rows have products, too.
  cast(std::nan("") * rand({140, 520}), DType::bf16).eval().to(kGpu).eval();
  const Results again = scaled_on_gpu(in, options(0));
  EXPECT_EQ(cast(again.dhead, DType::f32).to_vector<float>(), cast(whole.dhead, DType::f32).to_vector<float>());
}

// Where softmax is nearly 1 at the target, the gradient there is a small difference.
TEST_P(ScaledRows, KeepSmallGradientsOfRowsThatAreNearlyCertain) {
  ScaledInputs in = scaled_inputs(8, 8, 264, 1);
  std::vector<float> x(64, 0), head(264 * 8, 0);
  std::vector<std::int64_t> target(8);
  for (std::size_t r = 0; r < 8; ++r) {  // its own logit is 8 + r, those of the others are 0
    target[r] = static_cast<std::int64_t>(31 * r);
    x[r * 8 + r] = 1;
    head[31 * r * 8 + r] = static_cast<float>(8 + r);
  }
  in.x = cast(from_data(x, {8, 8}), DType::bf16).eval();
  in.head = cast(from_data(head, {264, 8}), DType::bf16).eval();
  in.target = from_data(target, {8});
  const std::vector<double> dx = scaled_on_gpu(in, options(0)).dx.to_vector<double>();
  const std::vector<double> wanted = by_formula(in, false).dx.to_vector<double>();
  for (std::size_t r = 0; r < 8; ++r)
    EXPECT_NEAR(dx[r * 9] / wanted[r * 9], 1, 0.008) << "row " << r << ": " << dx[r * 9];
}

TEST_P(ScaledRows, ANumberThatIsNoneStaysInItsRow) {
  const ScaledInputs in = scaled_inputs(40, 72, 264, 0.25);
  ScaledInputs bad = in;
  bad.x = where(unsqueeze(arange(40) == 6, 1), std::numeric_limits<double>::quiet_NaN(), in.x).eval();
  const Results good = scaled_on_gpu(in, options(0)), found = scaled_on_gpu(bad, options(0));
  const std::vector<float> a = good.losses.to_vector<float>(), b = found.losses.to_vector<float>();
  const std::vector<double> da = good.dx.to_vector<double>(), db = found.dx.to_vector<double>();
  for (std::size_t r = 0; r < 40; ++r) {
    EXPECT_EQ(std::isnan(b[r]), r == 6);
    EXPECT_EQ(std::isnan(db[r * 72]), r == 6);
    if (r == 6) continue;
    EXPECT_EQ(a[r], b[r]) << r;
    EXPECT_EQ(da[r * 72 + 5], db[r * 72 + 5]) << r;
  }
}

TEST_P(ScaledRows, RejectATargetThatIsNoClass) {
  const ScaledInputs in = scaled_inputs(11, 8, 264, 0.5);
  const Tensor wrong = where(arange(11) == 5, 264, in.target).to(kGpu);
  EXPECT_THROW_MESSAGE(linear_cross_entropy(in.x.to(kGpu), in.head.to(kGpu), wrong, options(0)).to_vector<float>(),
                       "linear_cross_entropy: target[5] = 264 is outside [0, 264)");
}

INSTANTIATE_TEST_SUITE_P(By, ScaledRows, ::testing::Values(false, true),
                         [](const auto& i) { return i.param ? "Row" : "Product"; });

TEST(ExponentialProductText, CompilesForHopper) {
  EBB_SKIP_WITHOUT_NVRTC();
  EXPECT_EQ(compile_error(cuda::prelude() + cuda::exponentials_source().text, "sm_90a"), "");
}

}  // namespace
}  // namespace ebb::testing
