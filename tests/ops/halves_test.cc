// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ebb/ops.h"
#include "ebb/ops/arrange.h"
#include "ebb/ops/image.h"
#include "ebb/ops/linear.h"
#include "ebb/ops/numbers.h"
#include "graph/op_table.h"

// Formulas of halves are computed in f32 and rounded once: the result equals, to the bit, that of the same numbers in
// f32, rounded.
namespace ebb {
namespace {

struct Formula {
  const char* name;  // the row of the op table, or a function composed of several
  std::function<Tensor(const std::vector<Tensor>&)> call;
  int operands = 1;
  double low = -3, high = 3;
};

const Axes kRows{-1};

const std::vector<Formula>& formulas() {
  using Tensors = std::vector<Tensor>;
  static const std::vector<Formula> all{
      {"clamp", [](const Tensors& v) { return clamp(v[0], -0.3, 0.7); }},
      {"logit", [](const Tensors& v) { return logit(v[0]); }, 1, 0.1, 0.9},
      {"sigmoid", [](const Tensors& v) { return sigmoid(v[0]); }},
      {"log_sigmoid", [](const Tensors& v) { return log_sigmoid(v[0]); }},
      {"softplus", [](const Tensors& v) { return softplus(v[0], 1.3); }},
      {"relu", [](const Tensors& v) { return relu(v[0]); }},
      {"leaky_relu", [](const Tensors& v) { return leaky_relu(v[0]); }},
      {"prelu", [](const Tensors& v) { return prelu(v[0], narrow(reshape(v[1], {-1}), 0, 0, 1)); }, 2},
      {"relu6", [](const Tensors& v) { return relu6(v[0]); }},
      {"elu", [](const Tensors& v) { return elu(v[0], 1.1); }},
      {"selu", [](const Tensors& v) { return selu(v[0]); }},
      {"celu", [](const Tensors& v) { return celu(v[0], 1.1); }},
      {"gelu", [](const Tensors& v) { return gelu(v[0]); }},
      {"gelu", [](const Tensors& v) { return gelu(v[0], GeluForm::tanh); }},
      {"silu", [](const Tensors& v) { return silu(v[0]); }},
      {"mish", [](const Tensors& v) { return mish(v[0]); }},
      {"softsign", [](const Tensors& v) { return softsign(v[0]); }},
      {"hardtanh", [](const Tensors& v) { return hardtanh(v[0], -0.7, 0.9); }},
      {"hardsigmoid", [](const Tensors& v) { return hardsigmoid(v[0]); }},
      {"hardswish", [](const Tensors& v) { return hardswish(v[0]); }},
      {"hardshrink", [](const Tensors& v) { return hardshrink(v[0], 0.3); }},
      {"softshrink", [](const Tensors& v) { return softshrink(v[0], 0.3); }},
      {"tanhshrink", [](const Tensors& v) { return tanhshrink(v[0]); }},
      {"threshold", [](const Tensors& v) { return threshold(v[0], 0.1, 0.3); }},
      {"softmax", [](const Tensors& v) { return softmax(v[0]); }},
      {"log_softmax", [](const Tensors& v) { return log_softmax(v[0]); }},
      {"logsumexp", [](const Tensors& v) { return logsumexp(v[0], kRows); }},
      {"layer_norm",
       [](const Tensors& v) { return layer_norm(v[0], Shape{v[0].size(-1)}, select(v[1], 0, 0), select(v[1], 0, 1)); },
       2},
      {"rms_norm", [](const Tensors& v) { return rms_norm(v[0], Shape{v[0].size(-1)}, select(v[1], 0, 0), 1e-3); }, 2},
      {"xlogy", [](const Tensors& v) { return xlogy(v[0], v[1]); }, 2, 0.1, 3},
      // functions made of several operations
      {"glu", [](const Tensors& v) { return glu(v[0]); }},
      {"swiglu", [](const Tensors& v) { return swiglu(v[0]); }},
      {"geglu", [](const Tensors& v) { return geglu(v[0]); }},
      {"reglu", [](const Tensors& v) { return reglu(v[0]); }},
      {"lerp", [](const Tensors& v) { return lerp(v[0], v[1], 0.3); }, 2},
      {"lerp", [](const Tensors& v) { return lerp(v[0], v[1], v[2]); }, 3, 0, 1},
      {"affine", [](const Tensors& v) { return affine(v[0], v[1], v[2]); }, 3},
      {"mean", [](const Tensors& v) { return mean(v[0], kRows); }},
      {"var", [](const Tensors& v) { return var(v[0], kRows); }},
      {"stddev", [](const Tensors& v) { return stddev(v[0], kRows); }},
      {"norm", [](const Tensors& v) { return norm(v[0], 2, kRows); }},
      {"norm", [](const Tensors& v) { return norm(v[0], 3, kRows); }},
      {"normalize", [](const Tensors& v) { return normalize(v[0]); }},
      {"group_norm", [](const Tensors& v) { return group_norm(v[0], 2); }},
      {"batch_norm", [](const Tensors& v) { return batch_norm(v[0], {}, {}, {}, {}, {.training = true}).y; }},
      {"conv_transpose1d",
       [](const Tensors& v) {
         return conv_transpose1d(reshape(v[0], {1, 4, 8}), reshape(narrow(reshape(v[1], {-1}), 0, 0, 24), {4, 2, 3}),
                                 narrow(reshape(v[2], {-1}), 0, 0, 2));
       },
       3},
      {"avg_pool1d",
       [](const Tensors& v) {
         return avg_pool1d(reshape(v[0], {1, 4, 8}), 3);
       }},
      {"logaddexp", [](const Tensors& v) { return logaddexp(v[0], v[1]); }, 2},
      {"logcumsumexp", [](const Tensors& v) { return logcumsumexp(v[0], -1); }},
      {"fmod", [](const Tensors& v) { return fmod(v[0], v[1]); }, 2},
      {"erfinv", [](const Tensors& v) { return erfinv(v[0]); }, 1, -0.9, 0.9},
      {"cdist", [](const Tensors& v) { return cdist(v[0], v[1]); }, 2},
      {"pairwise_distance", [](const Tensors& v) { return pairwise_distance(v[0], v[1]); }, 2},
      {"cosine_similarity", [](const Tensors& v) { return cosine_similarity(v[0], v[1]); }, 2},
      {"interpolate",
       [](const Tensors& v) {
         return interpolate(reshape(v[0], {1, 4, 8}), {.size = {13}, .mode = "linear"});
       }},
  };
  return all;
}

TEST(Halves, EveryFormulaIsRoundedOnce) {
  for (const DType half : {DType::f16, DType::bf16}) {
    for (const Formula& f : formulas()) {
      std::vector<Tensor> narrow_operands, wide_operands;
      for (int k = 0; k < f.operands; ++k) {
        // 32 numbers without a pattern
        const Tensor wave = sin(arange(0, 32, 1, DType::f32) * (1.7 + 0.9 * k) + 0.3 * k);
        const Tensor x = reshape(f.low + (f.high - f.low) * (0.5 + 0.5 * wave), {4, 8});
        narrow_operands.push_back(cast(x, half).eval());
        wide_operands.push_back(cast(narrow_operands.back(), DType::f32).eval());
      }
      const Tensor got = f.call(narrow_operands), want = cast(f.call(wide_operands), half);
      ASSERT_EQ(got.dtype(), half) << f.name;
      ASSERT_EQ(got.shape(), want.shape()) << f.name;
      EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>()) << f.name << " in " << name(half);
    }
  }
}

// A formula that is added to the table must be added to the test.
TEST(Halves, EveryFormulaOfTheTableIsHeldToOneRounding) {
  const std::set<std::string> not_formulas{"variable", "track", "stop_gradient", "depend", "custom", "formula"};
  std::set<std::string> held;
  for (const Formula& f : formulas()) held.insert(f.name);
  for (const OpInfo& row : kOpTable) {
    const std::string name(row.name);
    if (row.cls != OpClass::alias || not_formulas.contains(name)) continue;
    EXPECT_TRUE(held.contains(name)) << name;
  }
}

}  // namespace
}  // namespace ebb
