// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "autograd/rules.h"
#include "cases/all_cases.h"
#include "ebb/ebb.h"
#include "graph/node.h"
#include "table/case_name.h"

// Every operation of the table: its value against a formula, its gradient against differences, for every dtype, layout
// and awkward size. A row of the table without a case here fails.
namespace ebb::table {
namespace {

// Rows without a case here, and why. By name: the rows of the losses are added and removed with them.
const std::map<std::string_view, const char*>& tested_elsewhere() {
  static const std::map<std::string_view, const char*> ops{
      {"data", "a leaf: memory"},
      {"constant", "a leaf: one number"},
      {"iota", "a leaf: a ramp; arange is tested with the creation functions"},
      {"random_uniform", "a leaf: random bits; tested with the creation functions"},
      {"variable", "where differentiation ends"},
      {"to_device", "tests/device: it needs two devices"},
      {"track", "the input of a gradient transform; its rule is the identity"},
      {"stop_gradient", "a mark: no gradient passes"},
      {"formula", "one node for the nodes of others; tests/schedule/fold_test.cc"},
      {"depend", "order only; made by checkpoint"},
      {"output", "a part of a library call with several results"},
      {"linear_cross_entropy", "a loss, tested with the losses"},
      {"attention", "a call inside of scaled_dot_product_attention, whose cases are those of custom"},
      {"attention_gradient", "the same"},
      {"ctc", "a loss, tested with the losses"},
      {"transducer", "a loss, tested with the losses"},
      {"sparsemax_threshold", "a call inside of sparsemax_loss, tested with the losses"},
      {"multilabel_hinges", "a call inside of multilabel_margin_loss, tested with the losses"},
      {"collective", "tests/comm: it needs several processes"},
  };
  return ops;
}

double unit(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 4e-15;
    case DType::f32:
      return 1e-6;
    case DType::f16:
      return 1.2e-3;
    default:
      return 9e-3;
  }
}

// The unit of a value's error.
Array sizes_of(const Case& c, const Arrays& inputs, const Array& want) {
  if (!c.sums_products) return want;
  Arrays magnitudes = inputs;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (c.inputs[k].kind != Input::Kind::real) continue;
    for (double& x : magnitudes[k].values) x = std::fabs(x);
  }
  return c.reference(magnitudes);
}

void expect_value(const Case& c, const Tensor& got, const Array& want, const Array& sizes, DType dtype,
                  const std::string& what) {
  ASSERT_EQ(got.shape(), Shape(want.shape)) << what << ": " << got.shape().str();
  const std::vector<double> values = cast(got, DType::f64).to_vector();
  const bool exact = !is_floating(dtype) || !is_floating(got.dtype());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = exact ? kept(want.values[i], got.dtype()) : want.values[i];
    if (dtype == DType::f16 && std::fabs(expected) > 65000) continue;  // infinite or not, by a hair
    const double tolerance = exact ? 0 : c.loose * unit(dtype) * (0.1 + std::fabs(sizes.values[i]));
    ASSERT_LE(std::fabs(values[i] - expected), tolerance)
        << what << ", element " << i << " of " << got.shape().str() << ": " << values[i] << ", not " << expected;
  }
}

std::string describe(DType dtype, Layout layout, const std::vector<Index>& shapes) {
  std::string text = std::string(ebb::name(dtype)) + " " + name(layout);
  for (const Index& s : shapes) text += " " + Shape(s).str();
  return text;
}

class Table : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case& c() const { return all_cases()[GetParam()]; }
  std::vector<DType> floats() const {
    if (!c().halves) return {DType::f64, DType::f32};
    return {DType::f64, DType::f32, DType::f16, DType::bf16};
  }
  bool differentiable() const { return info(c().op).grad == OpGrad::yes; }
  std::vector<std::size_t> real_inputs() const {
    std::vector<std::size_t> which;
    for (std::size_t k = 0; k < c().inputs.size(); ++k) {
      if (c().inputs[k].kind == Input::Kind::real) which.push_back(k);
    }
    return which;
  }
};

TEST_P(Table, ValueIsTheFormula) {
  std::vector<DType> dtypes = floats();
  if (c().integers) dtypes.insert(dtypes.end(), {DType::i64, DType::i32, DType::u8});
  unsigned seed = 1;
  for (DType dtype : dtypes) {
    for (const auto& shapes : c().shapes) {
      for (Layout layout : kLayouts) {
        for (bool looked_at : {false, true}) {
          if (looked_at && layout == Layout::contiguous) continue;
          const Operands o = draw(c(), shapes, dtype, layout, ++seed);
          if (looked_at) eval(o.tensors);  // the view is now memory with strides, no longer a node of the graph
          const Array want = c().reference(o.arrays);
          expect_value(c(), c().call(o.tensors), want, sizes_of(c(), o.arrays, want), dtype,
                       describe(dtype, layout, shapes));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Table, GradientIsTheSlope) {
  if (!differentiable()) return;
  for (Layout layout : kLayouts) {
    std::size_t sets = 0;
    for (const auto& shapes : c().shapes) {
      const Operands o = draw(c(), shapes, DType::f64, layout, 5);
      std::int64_t most = 0;
      for (const Tensor& t : o.tensors) most = std::max(most, t.numel());
      if (layout == Layout::repeated && c().kink_at_ties) continue;
      if (most > 40 || (layout != Layout::contiguous && sets > 1)) continue;
      ++sets;
      GradcheckOptions options;
      options.rtol = 1e-6 * c().loose_gradient;
      options.atol = 1e-8 * c().loose_gradient;
      const GradcheckReport report = check_gradients(FunctionOfMany(c().call), o.tensors, options);
      EXPECT_TRUE(report.passed()) << describe(DType::f64, layout, shapes) << "\n" << report;
    }
  }
}

TEST_P(Table, SecondGradientIsTheSlopeOfTheGradient) {
  if (!differentiable()) return;
  const Operands o = draw(c(), c().shapes[0], DType::f64, Layout::contiguous, 6);
  GradcheckOptions options;
  options.rtol = 1e-6 * c().loose_gradient;
  options.atol = 2e-8 * c().loose_gradient;
  const GradcheckReport report = check_second_gradients(FunctionOfMany(c().call), o.tensors, options);
  EXPECT_TRUE(report.passed()) << "\n" << report;
}

// The gradient in a narrower dtype compared with the one in f64 at the same numbers.
TEST_P(Table, GradientInFewerBitsIsTheSameGradient) {
  if (!differentiable()) return;
  for (DType dtype : floats()) {
    if (dtype == DType::f64) continue;
    for (const auto& shapes : c().shapes) {
      const Operands o = draw(c(), shapes, dtype, Layout::contiguous, 7);
      Array weights(Index(c().reference(o.arrays).shape));
      std::mt19937_64 generator(3);
      for (double& w : weights.values) w = kept(0.5 + static_cast<double>(generator() >> 11) * 0x1p-53, dtype);
      auto gradients = [&](DType at) {
        Tensors variables = o.tensors;
        for (std::size_t k : real_inputs()) variables[k] = variable(cast(o.tensors[k], at));
        const Tensor y = c().call(variables);
        BackwardOptions options;
        options.grad = from_array(weights, y.dtype());
        const Gradients g = backward(y, options);
        std::vector<std::vector<double>> out;
        for (std::size_t k : real_inputs()) {
          EXPECT_EQ(g[variables[k]].dtype(), at);
          out.push_back(cast(g[variables[k]], DType::f64).to_vector());
        }
        return out;
      };
      const double rtol = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-2 : 2e-2;
      const double atol = dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 1e-3 : 1e-2;
      const auto narrow = gradients(dtype), wide = gradients(DType::f64);
      for (std::size_t k = 0; k < wide.size(); ++k) {
        for (std::size_t i = 0; i < wide[k].size(); ++i) {
          ASSERT_LE(std::fabs(narrow[k][i] - wide[k][i]),
                    c().loose_gradient * c().loose_narrow * (atol + rtol * std::fabs(wide[k][i])))
              << describe(dtype, Layout::contiguous, shapes) << ", input " << k << ", element " << i << ": "
              << narrow[k][i] << ", not " << wide[k][i];
        }
      }
    }
  }
}

bool depends_on(const Tensor& y, Op op) {
  std::vector<Node*> stack{y.node()};
  std::set<Node*> seen;
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n).second) continue;
    if (n->op == op) return true;
    for (Node* in : n->inputs) stack.push_back(in);
  }
  return false;
}

// A case that builds another operation than it says would leave a row untested; and the row's promise must be kept.
TEST_P(Table, CaseBuildsItsOperationAndItsMarkIsKept) {
  const Operands o = draw(c(), c().shapes[0], DType::f32, Layout::contiguous, 8);
  Tensors variables = o.tensors;
  for (std::size_t k : real_inputs()) variables[k] = variable(o.tensors[k]);
  const Tensor y = c().call(variables);
  EXPECT_TRUE(depends_on(y, c().op));
  EXPECT_EQ(y.requires_grad(), info(c().op).grad != OpGrad::none);
  if (info(c().op).grad == OpGrad::zero) {
    const Gradients g = backward(sum(y + 0 * variables[0]));
    for (double x : g[variables[0]].to_vector()) EXPECT_EQ(x, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Table, ::testing::Range(std::size_t{0}, all_cases().size()), case_name);

TEST(OpTable, EveryRowHasACaseOrAReason) {
  std::set<Op> covered;
  for (const Case& c : all_cases()) covered.insert(c.op);
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const bool elsewhere = tested_elsewhere().contains(info(op).name);
    EXPECT_NE(covered.contains(op), elsewhere)
        << info(op).name << (elsewhere ? " has a case and a reason for none" : " has no case and no reason for none");
  }
}

TEST(OpTable, EveryRowHasARuleOrAMark) {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const bool carries_its_own = op == Op::custom || op == Op::output;
    if (info(op).grad == OpGrad::yes) {
      EXPECT_TRUE(carries_its_own || rule_of(op) != nullptr) << info(op).name << " says yes but has no rule";
    } else {
      EXPECT_EQ(rule_of(op), nullptr) << info(op).name << " has a rule that its mark denies";
    }
  }
}

}  // namespace
}  // namespace ebb::table
