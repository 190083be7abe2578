// SPDX-License-Identifier: MIT
// linear_token_statistics of bf16 on a GPU against formulas in f64: by the product that leaves only sums, and by
// products in memory. Inputs are small integers times a power of two: logits are exact in every order of summation.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "both_heads.h"
#include "cuda/backend.h"
#include "cuda/compile_for_gpu.h"
#include "cuda/emulated_device.h"
#include "cuda/library/token_statistics.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

class TokenStatisticsOnGpu : public BothHeads {};

struct StatisticsInputs {
  Tensor x, head, target;
  StatisticsInputs(std::int64_t rows, std::int64_t width, std::int64_t classes) {
    manual_seed(static_cast<std::uint64_t>(rows + width + classes));
    x = cast(0.25 * cast(randint(-2, 3, {rows, width}), DType::f32), DType::bf16).eval();
    head = cast(randint(-1, 2, {classes, width}), DType::bf16).eval();
    target = where(remainder(arange(rows), 5) == 3, -100, randint(0, classes, {rows})).eval();
  }
};

TokenStatistics statistics_on_gpu(const StatisticsInputs& in, const TokenStatisticsOptions& o) {
  return linear_token_statistics(in.x.to(kGpu), in.head.to(kGpu), in.target.to(kGpu), o);
}
void expect_same(const Tensor& found, const Tensor& wanted, double tolerance, const char* what) {
  const std::vector<double> a = found.to_vector<double>(), b = wanted.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << what << ", row " << i;
}

TEST_P(TokenStatisticsOnGpu, AreTheDefinitions) {
  struct Sizes {
    std::int64_t rows, width, classes, chunk;
  };
  std::vector<Sizes> sizes{{1, 8, 1, 0}, {3, 16, 5, 0}, {40, 72, 264, 16}, {131, 40, 600, 0}, {7, 9, 777, 2}};
  if (!device_is_emulated()) sizes.insert(sizes.end(), {{300, 64, 513, 0}, {257, 1032, 20470, 0}, {1, 512, 3000, 0}});
  for (const Sizes& s : sizes) {
    for (const double temperature : {1.0, 0.7}) {
      const StatisticsInputs in(s.rows, s.width, s.classes);
      TokenStatisticsOptions o;
      o.temperature = temperature;
      o.chunk = s.chunk;
      const TokenStatistics found = statistics_on_gpu(in, o);
      const Tensor z = matmul(cast(in.x, DType::f64), transpose(cast(in.head, DType::f64), 0, 1)) / temperature;
      const Tensor log_p = log_softmax(z, 1), kept = in.target != -100, y = where(kept, in.target, 0);
      SCOPED_TRACE(std::to_string(s.rows) + "x" + std::to_string(s.width) + "x" + std::to_string(s.classes));
      expect_same(found.log_probs, where(kept, squeeze(gather(log_p, 1, unsqueeze(y, 1)), 1), 0), 2e-6, "log p");
      expect_same(found.logsumexp, where(kept, logsumexp(z, 1), 0), 2e-6, "logsumexp");
      expect_same(found.entropy, where(kept, -sum(exp(log_p) * log_p, 1), 0), 4e-6, "entropy");
      EXPECT_EQ(found.argmax.to_vector<std::int64_t>(), where(kept, argmax(z, 1), 0).to_vector<std::int64_t>());
    }
  }
}

// Requesting more statistics changes no bit of the others.
TEST_P(TokenStatisticsOnGpu, HaveTheSameBitsWhateverElseIsAskedForAndWhateverRowsAreBeside) {
  const StatisticsInputs in(70, 64, 1001);
  const TokenStatistics all = statistics_on_gpu(in, {});
  TokenStatisticsOptions few;
  few.entropy = few.argmax = false;
  EXPECT_EQ(statistics_on_gpu(in, few).log_probs.to_vector<float>(), all.log_probs.to_vector<float>());
  StatisticsInputs last = in;
  last.x = narrow(in.x, 0, 65, 5), last.target = narrow(in.target, 0, 65, 5);
  const TokenStatistics alone = statistics_on_gpu(last, {});
  EXPECT_EQ(alone.entropy.to_vector<float>(), narrow(all.entropy, 0, 65, 5).to_vector<float>());
  EXPECT_EQ(alone.log_probs.to_vector<float>(), narrow(all.log_probs, 0, 65, 5).to_vector<float>());
}

TEST_P(TokenStatisticsOnGpu, KeepDistantLogitsAndOneThatIsNoNumberInTheirRow) {
  StatisticsInputs in(12, 16, 600);
  in.target = where(in.target < 0, 1, in.target).eval();
  const Tensor row = unsqueeze(arange(12), 1), none = full({12, 16}, std::numeric_limits<double>::quiet_NaN());
  in.x = cast(where(row == 4, none, where(row == 7, 4096, 1.0) * cast(in.x, DType::f32)), DType::bf16).eval();
  const TokenStatistics found = statistics_on_gpu(in, {});
  const std::vector<float> p = found.log_probs.to_vector<float>(), h = found.entropy.to_vector<float>();
  const Tensor z = matmul(cast(in.x, DType::f64), transpose(cast(in.head, DType::f64), 0, 1));
  const std::vector<double> lse = logsumexp(z, 1).to_vector<double>();
  const std::vector<std::int64_t> best = found.argmax.to_vector<std::int64_t>(),
                                  wanted = argmax(z, 1).to_vector<std::int64_t>();
  for (std::size_t r = 0; r < 12; ++r) {
    EXPECT_EQ(std::isnan(p[r]), r == 4);
    EXPECT_EQ(std::isnan(h[r]), r == 4);
    EXPECT_EQ(best[r], wanted[r]) << "row " << r;
    if (r != 4) {
      EXPECT_NEAR(found.logsumexp.to_vector<float>()[r], lse[r], 1e-6 * (1 + std::fabs(lse[r])));
      EXPECT_GE(h[r], -1e-6);
    }
  }
}

TEST_P(TokenStatisticsOnGpu, HaveTheGradientsOfTheDefinitions) {
  const StatisticsInputs in(33, 24, 300);
  std::vector<std::vector<double>> found;
  for (const bool ours : {true, false}) {
    const Tensor x = variable(ours ? in.x.to(kGpu) : cast(in.x, DType::f64)),
                 head = variable(ours ? in.head.to(kGpu) : cast(in.head, DType::f64));
    TokenStatisticsOptions o;
    o.temperature = 0.5;
    const TokenStatistics s = linear_token_statistics(x, head, ours ? in.target.to(kGpu) : in.target, o);
    const Gradients g = backward(sum(s.log_probs) - 0.5 * sum(s.entropy));
    found.push_back(cast(g[x], DType::f64).to_vector<double>());
  }
  double largest = 0;
  for (const double v : found[1]) largest = std::max(largest, std::fabs(v));
  for (std::size_t i = 0; i < found[0].size(); ++i) ASSERT_NEAR(found[0][i], found[1][i], 0.01 * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(By, TokenStatisticsOnGpu, ::testing::Values(false, true),
                         [](const auto& i) { return i.param ? "ProductsInMemory" : "Sums"; });

TEST(TokenStatisticsText, CompilesForHopper) {
  EBB_SKIP_WITHOUT_NVRTC();
  for (const bool entropy : {false, true})
    EXPECT_EQ(compile_error(cuda::prelude() + cuda::token_statistics_source(entropy, !entropy).text, "sm_90a"), "");
}

}  // namespace
}  // namespace ebb::testing
