// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ebb/ebb.h"
#include "source_folder.h"
#include "test_device.h"

// The schedules of the most important programs, as text: a change of the scheduler shows as a diff. After an intended
// change, run this test with EBB_UPDATE_GOLDEN=1 and read the diff of tests/engine/golden.
namespace ebb {
namespace {

std::string golden_path(const std::string& name) {
  return (testing::source_folder() / "tests/engine/golden" / (name + ".txt")).string();
}

// `small` sweeps go over something much smaller than the data, such as the labels.
void expect_golden(const std::string& name, const std::vector<Tensor>& tensors, std::size_t small = 0) {
  if (testing::on_gpu()) GTEST_SKIP() << "a GPU's schedule has the plans of its kernels, too";
  const std::string text = print_schedule(tensors);
  std::size_t sweeps = 0, over_the_data = 0, calls = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    sweeps += line.rfind("sweep [", 0) == 0;
    over_the_data += line.rfind("sweep [4096", 0) == 0 && line.find("1000") != std::string::npos;
    calls += line.rfind("call ", 0) == 0;
  }
  EXPECT_EQ(over_the_data, 1u) << text;
  EXPECT_EQ(sweeps, 1u + small) << text;
  EXPECT_EQ(calls, 0u) << text;
  if (std::getenv("EBB_UPDATE_GOLDEN")) {
    std::ofstream(golden_path(name)) << text;
    return;
  }
  std::ifstream file(golden_path(name));
  ASSERT_TRUE(file.good()) << golden_path(name) << " is missing; EBB_UPDATE_GOLDEN=1 writes it";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "if this is meant: EBB_UPDATE_GOLDEN=1";
}

Tensor leaf(const Shape& shape) { return randn(shape).eval(); }

// Large enough that no shortcut for small tensors applies.
constexpr std::int64_t kRows = 4096, kColumns = 1000;

TEST(Golden, MseAndItsGradient) {
  const Tensor x = variable(leaf({kRows, kColumns})), target = leaf({kRows, kColumns});
  const Tensor loss = mse_loss(x, target);
  const Tensor g = backward(loss)[x];
  expect_golden("mse", {loss, g});
}

TEST(Golden, BceWithLogitsAndItsGradient) {
  const Tensor x = variable(leaf({kRows, kColumns})), target = cast(leaf({kRows, kColumns}) > 0, DType::f32).eval();
  const Tensor loss = binary_cross_entropy_with_logits(x, target);
  const Tensor g = backward(loss)[x];
  expect_golden("bce_with_logits", {loss, g});
}

TEST(Golden, CrossEntropyAndItsGradient) {
  const Tensor x = variable(leaf({kRows, kColumns})), target = randint(0, kColumns, {kRows}).eval();
  const Tensor loss = cross_entropy(x, target);
  const Tensor g = backward(loss)[x];
  // The mean is over the labels that are not ignored; how many those are must be known before the first gradient.
  expect_golden("cross_entropy", {loss, g}, 1);
}

TEST(Golden, LayerNorm) {
  const Tensor x = leaf({kRows, kColumns}), weight = leaf({kColumns}), bias = leaf({kColumns});
  expect_golden("layer_norm", {layer_norm(x, {kColumns}, weight, bias)});
}

}  // namespace
}  // namespace ebb
