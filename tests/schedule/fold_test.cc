// SPDX-License-Identifier: MIT
#include "schedule/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ebb/origins.h"
#include "graph/formula.h"
#include "schedule/graphs.h"

// Formulas that are one node: their results, and when they are not one node.
namespace ebb {
namespace {

using testing::leaf;

std::vector<std::byte> bits(const Tensor& t) {
  const HostElements e = host_elements(t);
  return {e.bytes.begin(), e.bytes.end()};
}

bool is_one_node(const Tensor& t) { return t.node()->op == Op::formula && t.node()->formula != nullptr; }

// Formulas of x [4, 6] and y, a second one, all with nodes of their own.
std::map<std::string, std::function<Tensor(const Tensor&, const Tensor&)>> formulas() {
  using T = const Tensor&;
  return {
      {"relu", [](T x, T) { return relu(x); }},
      {"softmax", [](T x, T) { return softmax(x, 1); }},
      {"softmax over the first axis", [](T x, T) { return softmax(x, 0); }},
      {"gelu", [](T x, T) { return gelu(x); }},
      {"gelu by tanh", [](T x, T) { return gelu(x, GeluForm::tanh); }},
      {"leaky_relu", [](T x, T) { return leaky_relu(x, 0.3); }},
      {"hardtanh", [](T x, T) { return hardtanh(x, -0.5, 0.25); }},
      {"threshold", [](T x, T) { return threshold(x, 0.1, 7); }},
      {"mean", [](T x, T) { return mean(x, 1); }},
      {"var", [](T x, T) { return var(x, 1, false, 1); }},
      {"var of everything", [](T x, T) { return var(x); }},
      {"stddev", [](T x, T) { return stddev(x, {0}, true); }},
      {"norm", [](T x, T) { return norm(x, 3, 1); }},
      {"logsumexp", [](T x, T) { return logsumexp(x, 1); }},
      {"logcumsumexp", [](T x, T) { return logcumsumexp(x, 1); }},
      {"normalize", [](T x, T) { return normalize(x); }},
      {"layer_norm", [](T x, T y) { return layer_norm(x, {6}, select(y, 0, 0), select(y, 0, 1)); }},
      {"layer_norm with a weight alone", [](T x, T y) { return layer_norm(x, {6}, select(y, 0, 0)); }},
      {"layer_norm with a bias alone", [](T x, T y) { return layer_norm(x, {6}, {}, select(y, 0, 0)); }},
      {"rms_norm", [](T x, T) { return rms_norm(x, {6}); }},
      {"group_norm",
       [](T x, T) {
         return group_norm(reshape(x, {1, 4, 6}), 2);
       }},
      {"mse_loss", [](T x, T y) { return mse_loss(x, y); }},
      {"huber_loss", [](T x, T y) { return huber_loss(x, y, {.delta = 0.3}); }},
      {"cross_entropy", [](T x, T) { return cross_entropy(x, arange(4)); }},
      {"cross_entropy of probabilities", [](T x, T y) { return cross_entropy(x, softmax(y, 1)); }},
      {"cross_entropy with weights",
       [](T x, T y) { return cross_entropy(x, arange(4), {.weight = select(exp(y), 0, 0), .label_smoothing = 0.1}); }},
      {"bce with logits", [](T x, T y) { return binary_cross_entropy_with_logits(x, sigmoid(y)); }},
      {"max_pool2d",
       [](T x, T) {
         return max_pool2d(reshape(x, {1, 1, 4, 6}), 2);
       }},
      {"avg_pool2d",
       [](T x, T) {
         return avg_pool2d(reshape(x, {1, 1, 4, 6}), {2, 3});
       }},
      {"max_pool3d",
       [](T x, T) {
         return max_pool3d(reshape(x, {1, 1, 4, 3, 2}), 2);
       }},
      {"avg_pool3d",
       [](T x, T) {
         return avg_pool3d(reshape(x, {1, 1, 4, 3, 2}), 2);
       }},
      {"grid_sample",
       [](T x, T y) {
         return grid_sample(reshape(x, {1, 1, 4, 6}), reshape(y, {1, 3, 4, 2}));
       }},
      {"a formula of a formula", [](T x, T y) { return softmax(relu(x) + leaky_relu(y), 1); }},
      {"with numbers around it", [](T x, T) { return 3 - 5 * relu6(x + 0.125); }},
  };
}

// The first call makes the nodes, the second those of a node, the third runs the plan of the node.
TEST(Fold, FormulasGiveTheSameBitsEveryTime) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const auto& [name, f] : formulas()) {
      for (int round = 0; round < 2; ++round) {
        const Tensor x = cast(leaf({4, 6}), dtype).eval(), y = cast(leaf({4, 6}), dtype).eval();
        const auto first =
            bits(compile(FunctionOfMany([&](const std::vector<Tensor>& v) { return f(v[0], v[1]); }))({x, y}));
        for (int call = 0; call < 4; ++call) EXPECT_EQ(bits(f(x, y)), first) << name << ", call " << call;
      }
    }
  }
}

TEST(Fold, TheNodesAreNotMadeAgain) {
  for (const auto& [name, f] : formulas()) {
    if (name.find(' ') != std::string::npos) continue;  // not alone
    const Tensor x = leaf({4, 6}), y = leaf({4, 6});
    for (int call = 0; call < 3; ++call) f(x, y).eval();
    const Tensor again = f(x, y);
    EXPECT_TRUE(is_one_node(again)) << name;
    again.eval();
    EXPECT_TRUE(is_one_node(again)) << name << ": its nodes were made for the plan";
  }
}

// A plan merges equal numbers, and its key says which are equal. That of a formula as one node does not cover the
// formula's own numbers.
TEST(Fold, NumbersThatEqualOnesOfAFormulaChangeNothing) {
  const Tensor x = leaf({3, 5});
  const auto f = [&](double factor) { return relu6(x * 4) * factor; };
  const auto expected = [&](double factor) {
    return bits(compile([&](const Tensor& t) { return minimum(maximum(t * 4, 0), 6) * factor; })(x));
  };
  for (const double factor : {5.0, 5.0, 5.0, 6.0, 7.0, 6.0, 0.0, 0.0, 0.0, 6.0, 6.0, 5.0})
    EXPECT_EQ(bits(f(factor)), expected(factor)) << factor;
}

TEST(Fold, WhatIsDifferentiatedOrTracedHasItsNodes) {
  const Tensor x = leaf({2, 7}), v = variable(leaf({2, 7}));
  for (int call = 0; call < 3; ++call) {
    softmax(x, 1).eval();
    softmax(v, 1).eval();
  }
  EXPECT_TRUE(is_one_node(softmax(x, 1)));
  EXPECT_FALSE(is_one_node(softmax(v, 1)));
  compile([](const Tensor& t) {
    EXPECT_FALSE(is_one_node(softmax(t, 1)));
    return softmax(t, 1);
  })(x);
  const Tensor y = leaf({2, 7});
  const Tensor g = grad([&](const Tensor& t) { return sum(softmax(t, 1) * y); })(x);
  const Tensor s = softmax(x, 1);
  const std::vector<double> expected = (s * (y - sum(s * y, 1, true))).to_vector(), found = g.to_vector();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
}

TEST(Fold, OtherShapesAndOptionsAreOtherFormulas) {
  const Tensor x = leaf({4, 6}), small = leaf({3, 2});
  for (int call = 0; call < 3; ++call) {
    leaky_relu(x, 0.25).eval();
    layer_norm(x, {6}).eval();
  }
  EXPECT_EQ(bits(leaky_relu(x, 0.5)), bits(where(x > 0, x, 0.5 * x)));
  EXPECT_EQ(bits(leaky_relu(small, 0.25)), bits(where(small > 0, small, 0.25 * small)));
  EXPECT_THROW(layer_norm(small, {6}), Error);
  EXPECT_THROW(layer_norm(x, {6}, leaf({5})), Error);
  EXPECT_THROW(cross_entropy(x, arange(3)), Error);
  EXPECT_THROW(cross_entropy(x, arange(3)), Error);
}

TEST(Fold, ErrorsOfTheDataNameThePlace) {
  const Tensor x = leaf({2, 3});
  for (int call = 0; call < 3; ++call) cross_entropy(x, from_data<std::int64_t>({0, 2}, {2})).eval();
  const Tensor wrong = cross_entropy(x, from_data<std::int64_t>({0, 17}, {2}));
  EXPECT_TRUE(is_one_node(wrong));
  try {
    wrong.eval();
    FAIL() << "it was computed";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cross_entropy: target[1] = 17 is outside [0, 3)"), std::string::npos)
        << e.what();
  }
}

TEST(Fold, TheScheduleIsThatOfTheNodes) {
  const Tensor x = leaf({5, 9});
  const std::string first = print_schedule({softmax(x, 1)});
  for (int call = 0; call < 3; ++call) softmax(x, 1).eval();
  const Tensor y = softmax(x, 1);
  ASSERT_TRUE(is_one_node(y));
  EXPECT_EQ(print_schedule({y}), first);
  EXPECT_FALSE(is_one_node(y));
  EXPECT_EQ(bits(y), bits(softmax(x, 1)));
}

TEST(Fold, WalksThroughTheGraphMakeTheNodes) {
  const Tensor x = leaf({3, 4});
  for (int call = 0; call < 3; ++call) mean(x, 1).eval(), logcumsumexp(x, 0).eval();
  // The layout of elements is queried before they are computed.
  const Tensor y = logcumsumexp(x, 0);
  EXPECT_EQ(bits(contiguous(transpose(y, 0, 1))), bits(transpose(logcumsumexp(x, 0), 0, 1)));
  // Rows of a Jacobian are copies of a graph in which undifferentiated parts are one node.
  const auto f = [&](const Tensor& t) { return t * mean(x, 1, true) + exp(t); };
  const Tensor expected = reshape(diag(reshape(mean(x, 1, true) + exp(x), {12})), {3, 4, 3, 4});
  const std::vector<double> a = jacobian(Function(f), x).to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST(Fold, NodesThatKnowWhereTheyWereBuiltAreMadeAtOnce) {
  const Tensor x = leaf({3, 8});
  for (int call = 0; call < 3; ++call) relu(x).eval();
  ASSERT_TRUE(is_one_node(relu(x)));
  set_origins(true);
  const Tensor y = relu(x);
  set_origins(false);
  EXPECT_FALSE(is_one_node(y));
}

// Every operation is computed by itself there, and a sum of what is in memory has other bits than one in the sweep that
// computes what it sums. It does not matter what was called before.
TEST(Fold, EagerFormulasAreComputedByOperations) {
  const Tensor x = cast(leaf({700, 533}), DType::f64).eval(), target = cast(533 * rand({700}), DType::i64).eval();
  const auto eagerly = [&] {
    const Eager now;
    return bits(cross_entropy(x, target));
  };
  const auto first = eagerly();
  for (int call = 0; call < 3; ++call) cross_entropy(x, target).eval();
  EXPECT_TRUE(is_one_node(cross_entropy(x, target)));
  EXPECT_EQ(eagerly(), first);
}

// A thread may compute what another has made, while a third one walks through it.
TEST(Fold, ThreadsShareFormulas) {
  const Tensor x = leaf({6, 6});
  const auto expected = bits(softmax(x, 1));
  for (int call = 0; call < 3; ++call) softmax(x, 1).eval();
  for (int round = 0; round < 200; ++round) {
    const Tensor y = softmax(x, 1), z = relu(y) + 1;
    std::vector<std::thread> threads;
    threads.emplace_back([&] { EXPECT_EQ(bits(y), expected); });
    threads.emplace_back([&] { expand(y); });
    threads.emplace_back([&] { z.eval(); });
    threads.emplace_back([&] { EXPECT_EQ(bits(softmax(x, 1)), expected); });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(bits(z), bits(y + 1));
  }
}

// Values read from another tensor's memory have no place in such a plan: the nodes are expanded, and next time
// immediately.
TEST(Fold, FormulasWhosePlanNeedsTheirNodesHaveThem) {
  const Tensor x = leaf({2, 8});
  const auto of_slices = [&] {
    return deferred({&x}, {}, [](Formula::Operands in, Formula::Options) {
      return narrow(in[0], 1, 0, 4) * exp(narrow(in[0], 1, 4, 4));
    });
  };
  const auto expected = bits(narrow(x, 1, 0, 4) * exp(narrow(x, 1, 4, 4)));
  for (int call = 0; call < 4; ++call) EXPECT_EQ(bits(of_slices()), expected);
  EXPECT_FALSE(is_one_node(of_slices()));
}

}  // namespace
}  // namespace ebb
