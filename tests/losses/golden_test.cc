// SPDX-License-Identifier: MIT
#include "golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ebb/autograd.h"
#include "ebb/gradcheck.h"
#include "ebb/ops.h"

// Every loss × reduction × option set of golden/losses.txt: values and gradients against PyTorch, gradients and second
// gradients against central differences, every dtype against f64.
namespace ebb::testing {
namespace {

// Relative to the largest element, because small ones may be differences of large ones.
void expect_close(const Tensor& got, const Tensor& expected, double rtol, double atol, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const std::vector<double> g = got.to_vector(), e = expected.to_vector();
  double scale = 0;
  for (double v : e) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(g[i], e[i], atol + rtol * scale) << what << ", element " << i;
  }
}

Tensor evaluate(const GoldenCase& c, const std::vector<Tensor>& inputs) {
  return evaluate_loss(c.loss, inputs, c.options);
}

bool is_differentiable(const GoldenCase& c, std::size_t i) {
  return is_floating(c.inputs[i].dtype()) && loss_info(c.loss).inputs[i].differentiable;
}

std::vector<Tensor> as_variables(const GoldenCase& c, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> v;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    v.push_back(is_differentiable(c, i) ? variable(inputs[i]) : inputs[i]);
  }
  return v;
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, ValueAndGradientsArePyTorchs) {
  const GoldenCase& c = GetParam();
  const std::vector<Tensor> v = as_variables(c, c.inputs);
  const Tensor value = evaluate(c, v);
  const Gradients g = backward(value, {.grad = c.cotangent});
  expect_close(value, c.value, 1e-12, 1e-12, "value");
  for (const auto& [i, expected] : c.gradients) {
    if (is_differentiable(c, i))
      expect_close(g[v[i]], expected, 1e-10, 1e-10, "gradient of input " + std::to_string(i));
  }
}

TEST_P(Golden, GradientsAreCentralDifferences) {
  const GoldenCase& c = GetParam();
  // Only differentiable inputs vary; a target in {−1, 1} must stay there.
  std::vector<Tensor> moving;
  std::vector<std::size_t> places;
  const bool signs = c.loss == "hinge_loss";
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (is_differentiable(c, i) && !(signs && i == 1)) moving.push_back(c.inputs[i]), places.push_back(i);
  }
  const FunctionOfMany f = [&](const std::vector<Tensor>& some) {
    std::vector<Tensor> all = c.inputs;
    for (std::size_t k = 0; k < places.size(); ++k) all[places[k]] = some[k];
    return evaluate(c, all);
  };
  const GradcheckReport first = check_gradients(f, moving, {.rtol = 1e-5, .atol = 1e-7});
  EXPECT_TRUE(first.passed()) << first;
  const GradcheckReport second = check_second_gradients(f, moving, {.rtol = 1e-5, .atol = 1e-6});
  EXPECT_TRUE(second.passed()) << second;
}

// Computed one operation at a time, as for debugging, it is the same loss.
TEST_P(Golden, EagerlyTheSame) {
  const GoldenCase& c = GetParam();
  Eager eager;
  const std::vector<Tensor> v = as_variables(c, c.inputs);
  const Tensor value = evaluate(c, v);
  EXPECT_TRUE(value.evaluated());
  expect_close(value, c.value, 1e-12, 1e-12, "value");
  const Gradients g = backward(value, {.grad = c.cotangent});
  for (const auto& [i, expected] : c.gradients) {
    if (is_differentiable(c, i))
      expect_close(g[v[i]], expected, 1e-10, 1e-10, "gradient of input " + std::to_string(i));
  }
}

struct DTypeRow {
  DType dtype;
  double value_tolerance, gradient_tolerance;
};
constexpr DTypeRow kDTypes[] = {{DType::f32, 2e-6, 1e-5}, {DType::f16, 1e-3, 2e-3}, {DType::bf16, 8e-3, 1.6e-2}};

// Halves are computed in f32 and rounded once: their error is the rounding of the result.
TEST_P(Golden, EveryDTypeGivesTheRoundedDoubleResult) {
  const GoldenCase& c = GetParam();
  for (const DTypeRow& row : kDTypes) {
    std::vector<Tensor> rounded, wide;
    for (const Tensor& x : c.inputs) {
      rounded.push_back(is_floating(x.dtype()) ? cast(x, row.dtype).eval() : x);
      wide.push_back(is_floating(x.dtype()) ? cast(rounded.back(), DType::f64) : x);
    }
    const Tensor cotangent = cast(c.cotangent, row.dtype).eval();
    const std::vector<Tensor> v = as_variables(c, rounded), w = as_variables(c, wide);
    const Tensor value = evaluate(c, v), exact = evaluate(c, w);
    EXPECT_EQ(value.dtype(), row.dtype);
    const Gradients g = backward(value, {.grad = cotangent}),
                    ge = backward(exact, {.grad = cast(cotangent, DType::f64)});
    const std::string what(name(row.dtype));
    expect_close(value, exact, row.value_tolerance, 1e-6, what + " value");
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (!is_differentiable(c, i)) continue;
      EXPECT_EQ(g[v[i]].dtype(), row.dtype);
      expect_close(g[v[i]], ge[w[i]], row.gradient_tolerance, 1e-6, what + " gradient of input " + std::to_string(i));
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string text = info.param.name;
  for (char& ch : text) {
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return text;
}
INSTANTIATE_TEST_SUITE_P(Losses, Golden, ::testing::ValuesIn(golden_cases()), test_name);

// Second derivatives are checked above; here, that no PyTorch loss was forgotten.
TEST(GoldenFile, HasEveryLossOfPyTorch) {
  std::set<std::string_view> seen;
  const std::vector<GoldenCase> cases = golden_cases();
  for (const GoldenCase& c : cases) seen.insert(c.loss);
  for (const char* loss : {"mse_loss",
                           "l1_loss",
                           "smooth_l1_loss",
                           "huber_loss",
                           "nll_loss",
                           "cross_entropy",
                           "softmax_focal_loss",
                           "binary_cross_entropy",
                           "binary_cross_entropy_with_logits",
                           "multilabel_soft_margin_loss",
                           "sigmoid_focal_loss",
                           "focal_loss_on_probabilities",
                           "hinge_loss",
                           "hinge_embedding_loss",
                           "margin_ranking_loss",
                           "soft_margin_loss",
                           "multi_margin_loss",
                           "multilabel_margin_loss",
                           "triplet_margin_loss",
                           "triplet_margin_with_distance_loss",
                           "cosine_embedding_loss",
                           "cosine_similarity_loss",
                           "kl_div",
                           "kl_divergence",
                           "poisson_nll_loss",
                           "gaussian_nll_loss"}) {
    EXPECT_TRUE(seen.contains(loss)) << loss;
  }
}

}  // namespace
}  // namespace ebb::testing
