// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "comm/local.h"
#include "ebb/autograd.h"
#include "ebb/distributed.h"
#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "expect_error.h"

namespace ebb::distributed {
namespace {

std::vector<double> numbers_of(const Tensor& t) { return cast(t, DType::f64).to_vector(); }

struct Results {
  std::vector<std::vector<double>> replicated;  // the same on all ranks
  std::vector<std::vector<double>> divided;     // the parts of all ranks, one after the other
};

// Runs f, which returns tensors that every rank has and tensors of which it has parts.
using Story = std::function<std::pair<std::vector<Tensor>, std::vector<Tensor>>()>;
Results by(int ranks, const Story& f) {
  std::mutex mutex;
  std::set<std::vector<std::vector<double>>> same;
  std::vector<std::vector<std::vector<double>>> parts(static_cast<std::size_t>(ranks));
  run_as_threads(ranks, [&] {
    const auto [replicated, divided] = f();
    std::vector<std::vector<double>> values, own;
    for (const Tensor& t : replicated) values.push_back(numbers_of(t));
    for (const Tensor& t : divided) own.push_back(numbers_of(t));
    const std::lock_guard lock(mutex);
    same.insert(values);
    parts[static_cast<std::size_t>(world().rank())] = own;
  });
  EXPECT_EQ(same.size(), 1u) << "ranks disagree";
  Results r{*same.begin(), parts[0]};
  for (std::size_t k = 1; k < parts.size(); ++k) {
    for (std::size_t i = 0; i < r.divided.size(); ++i)
      r.divided[i].insert(r.divided[i].end(), parts[k][i].begin(), parts[k][i].end());
  }
  return r;
}

// The results of one rank, which every other number of ranks must match to the bit.
Results same_by_all(const Story& f) {
  const Results one = by(1, f);
  for (int ranks : {2, 3, 4}) {
    const Results many = by(ranks, f);
    EXPECT_EQ(many.replicated, one.replicated) << ranks;
    EXPECT_EQ(many.divided, one.divided) << ranks;
  }
  return one;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], tolerance) << "element " << k;
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> two_layers() {
  manual_seed(5);
  ColumnParallelLinear up(6, 16, {.parts = 4});
  RowParallelLinear down(16, 3, {.parts = 4});
  const Tensor x = variable(randn({5, 6}));
  const Tensor y = down(gelu(up(x)));
  const Gradients g = backward(sum(square(y)));
  return {{y, g[x], g[down.bias]}, {up.weight, g[up.weight], g[up.bias], down.weight, g[down.weight]}};
}

TEST(ParallelLinear, APairHasTheBitsOfOneProcessAndTheValuesOfPlainLayers) {
  const Results one = same_by_all(two_layers);
  // The same with two matrices.
  manual_seed(5);
  ColumnParallelLinear up(6, 16, {.parts = 4});
  RowParallelLinear down(16, 3, {.parts = 4});
  const Tensor x = variable(randn({5, 6}));
  const Tensor first = reshape(up.weight, {16, 6}), second = reshape(permute(down.weight, {1, 0, 2}), {3, 16});
  const Tensor y = matmul(gelu(matmul(x, t(first)) + reshape(up.bias, {16})), t(second)) + down.bias;
  const Gradients g = backward(sum(square(y)));
  expect_near(one.replicated[0], numbers_of(y), 1e-5);
  expect_near(one.replicated[1], numbers_of(g[x]), 1e-4);
  expect_near(one.divided[1], numbers_of(g[up.weight]), 1e-4);
  expect_near(one.divided[4], numbers_of(g[down.weight]), 1e-4);
}

TEST(ParallelLinear, SaysWhatCannotBeDivided) {
  EXPECT_THROW_MESSAGE(ColumnParallelLinear(4, 6, {.parts = 4}), "6 cannot be divided into 4 parts");
  run_as_threads(3, [] { EXPECT_THROW_MESSAGE(own_parts(2), "3 ranks cannot share 2 parts"); });
}

constexpr std::int64_t kVocabulary = 37;

std::pair<std::vector<Tensor>, std::vector<Tensor>> vocabulary_loss(const std::vector<std::int64_t>& targets,
                                                                    std::int64_t chunk) {
  manual_seed(9);
  const auto n = static_cast<std::int64_t>(targets.size());
  const Tensor x = variable(randn({n, 8})), whole = randn({kVocabulary, 8}) * 2.0;
  const auto [from, to] = own_vocabulary(kVocabulary, 4);
  const Tensor head = variable(contiguous(narrow(whole, 0, from, to - from)));
  const Tensor loss =
      vocabulary_parallel_cross_entropy(x, head, from_data(targets, {n}), kVocabulary, {.parts = 4, .chunk = chunk});
  const Gradients g = backward(3.0 * loss);
  return {{loss, g[x]}, {g[head]}};
}

TEST(VocabularyParallel, HasTheBitsOfOneProcessAndTheValuesOfLinearCrossEntropy) {
  const std::vector<std::int64_t> targets{0, 36, 9, -100, 17, 8, 27, 28, 9, -100, 3};
  for (std::int64_t chunk : {3, 1024}) {
    const auto f = [&] { return vocabulary_loss(targets, chunk); };
    const Results one = same_by_all(f);
    manual_seed(9);
    const Tensor x = variable(randn({11, 8})), head = variable(randn({kVocabulary, 8}) * 2.0);
    const Tensor loss = linear_cross_entropy(x, head, from_data(targets, {11}));
    const Gradients g = backward(3.0 * loss);
    EXPECT_NEAR(one.replicated[0][0], loss.item(), 1e-5);
    expect_near(one.replicated[1], numbers_of(g[x]), 2e-5);
    expect_near(one.divided[0], numbers_of(g[head]), 2e-5);
  }
}

TEST(VocabularyParallel, NamesATargetOutsideTheVocabulary) {
  EXPECT_THROW_MESSAGE(vocabulary_loss({1, 37}, 8).first[0].eval(), "vocabulary_parallel_cross_entropy: target");
}

TEST(VocabularyParallel, RefusesSecondDerivatives) {
  const Tensor head = randn({4, 2}), target = from_data(std::vector<std::int64_t>{1, 2}, {2});
  const auto loss = [&](const Tensor& x) { return vocabulary_parallel_cross_entropy(x, head, target, 4); };
  EXPECT_THROW_MESSAGE(hvp(loss, ones({2, 2}), ones({2, 2})).eval(), "no second derivatives");
}

}  // namespace
}  // namespace ebb::distributed
