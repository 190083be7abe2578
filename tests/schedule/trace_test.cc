// SPDX-License-Identifier: MIT
#include "schedule/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "schedule/graphs.h"

// A plan is found by the key of a trace: graphs with equal keys run the same plan, so everything a plan depends on must
// be in the key, and no number that changes from step to step may be.
namespace ebb {
namespace {

using testing::after;
using testing::leaf;

std::vector<std::uint64_t> key_of(const std::vector<Tensor>& roots) {
  return after(roots, [](const Trace& t) { return t.key; });
}

TEST(Trace, KeysDistinguishWhatPlansDependOn) {
  const Tensor x = leaf({4, 6}), y = leaf({4, 6}), z = leaf({6, 4}), half = cast(x, DType::f16).eval();
  const Tensor index = arange(4).eval(), wide = leaf({8, 6});
  const std::vector<std::pair<std::string, std::vector<Tensor>>> graphs = {
      {"x + y", {x + y}},
      {"another operation", {x - y}},
      {"the same operand twice", {x + x}},
      {"another shape", {leaf({4, 7}) + leaf({4, 7})}},
      {"another dtype", {half + half}},
      {"another order in memory", {permute(z, {1, 0}).eval() + y}},
      {"a slice with other strides", {slice(wide, 0, 0, 8, 2).eval() + y}},
      {"not computed yet", {permute(z, {1, 0}) + y}},
      {"a number", {x + 3.0}},
      {"one: products with it vanish", {x + 1.0}},
      {"a number of another dtype", {cast(x, DType::f64) + 3.0}},
      {"two equal numbers", {x * 3.0 + 3.0}},
      {"two different numbers", {x * 3.0 + 5.0}},
      {"sums over all", {sum(x)}},
      {"over axis 0", {sum(x, 0)}},
      {"over axis 1", {sum(x, 1)}},
      {"over axis 1, kept", {sum(x, 1, true)}},
      {"a slice", {narrow(exp(x), 0, 0, 2)}},
      {"a slice further on", {narrow(exp(x), 0, 1, 2)}},
      {"a cat", {cat({exp(x), y}, 0)}},
      {"of three", {cat({exp(x), y, y}, 0)}},
      {"along another axis", {cat({exp(x), y}, 1)}},
      {"options of a call", {argsort(x, 1)}},
      {"other options of it", {argsort(x, 1, true)}},
      {"checks with a label", {embedding(x, index)}},
      {"two roots", {exp(x), exp(y)}},
      {"of the same", {exp(x), exp(x)}},
      {"a chain of two", {exp(exp(x))}},
  };
  for (std::size_t a = 0; a < graphs.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_NE(key_of(graphs[a].second), key_of(graphs[b].second)) << graphs[a].first << " / " << graphs[b].first;
  }
}

TEST(Trace, KeysDoNotHoldNumbersAndAddresses) {
  const Tensor x = leaf({4, 6}), y = leaf({4, 6});
  EXPECT_EQ(key_of({x + y}), key_of({y + x}));
  EXPECT_EQ(key_of({x * 3.0 + 5.0}), key_of({y * 7.0 + 0.5}));
  softmax(x * 0.1, 1), dropout(x, 0.5);  // a formula is one node from its second time on (graph/formula.h)
  EXPECT_EQ(key_of({softmax(x * 0.1, 1)}), key_of({softmax(y * 0.2, 1)}));
  EXPECT_EQ(key_of({dropout(x, 0.5)}), key_of({dropout(x, 0.25)}));
  EXPECT_EQ(key_of({slice(x, 0, 0, 2) + 1}), key_of({slice(y, 0, 2, 4) + 1})) << "batches at other offsets";
}

TEST(Trace, EveryLeafNamesTheFirstEqualOne) {
  const Tensor x = leaf({3}), y = leaf({3});
  Tensor sum = zeros({3});
  for (int k = 0; k < 24; ++k) sum = sum + (k % 2 ? x : y) * (2.0 + k % 20);  // more leaves than a list is searched for
  after({sum}, [&](const Trace& t) {
    for (std::size_t i = 0; i < t.nodes.size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      if (!t.is_leaf(at)) {
        EXPECT_EQ(t.same[i], at);
        continue;
      }
      std::int32_t first = 0;
      const Node& n = *t.nodes[i];
      const auto equal = [&](const Node& o) {
        return o.op == n.op && o.shape == n.shape && o.storage.buffer.get() == n.storage.buffer.get() &&
               o.payload.real == n.payload.real;
      };
      while (!t.is_leaf(first) || !equal(*t.nodes[static_cast<std::size_t>(first)])) ++first;
      EXPECT_EQ(t.same[i], first) << "leaf " << i;
    }
    return 0;
  });
}

TEST(Trace, ReadsBackWhatItWrote) {
  const Tensor x = leaf({3, 4}), w = leaf({4, 5});
  const Tensor h = tanh(matmul(x, w) + 1.0), root = cat({h, h * 2.0, exp(x * 0.5).eval(), h}, 1);
  after({root}, [&](const Trace& t) {
    EXPECT_EQ(t.stored.size(), t.nodes.size());
    for (std::size_t i = 0; i < t.nodes.size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      const Node& n = *t.nodes[i];
      EXPECT_EQ(static_cast<bool>(t.stored[i]), n.evaluated.load()) << i;
      EXPECT_FALSE(t.unique[i]) << i;
      if (t.is_leaf(at)) {
        EXPECT_TRUE(t.inputs_of(at).empty());
        continue;
      }
      EXPECT_EQ(t.inputs_of(at).size(), n.inputs.size()) << i;
      if (t.inputs_of(at).size() != n.inputs.size()) continue;
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        EXPECT_EQ(t.nodes[static_cast<std::size_t>(t.inputs_of(at)[k])], n.inputs[k]);
        EXPECT_LT(t.inputs_of(at)[k], at) << "inputs come first";
      }
    }
    EXPECT_EQ(t.nodes[static_cast<std::size_t>(t.roots[0])], root.node());
    return 0;
  });
}

// External memory is released during the evaluation that read it last, and its owner computes something at that
// point.
TEST(Evaluate, MayBeNested) {
  const Tensor x = leaf({3});
  std::vector<float> numbers{1, 2, 3};
  std::vector<double> inner;
  const auto compute = [&] { inner = (x * 2).to_vector(); };
  Tensor outer;
  {
    const Tensor lent = make_data(DType::f32, Shape{3}, BufferPtr::wrap(numbers.data(), 12, compute));
    outer = exp(lent) + lent;
  }
  EXPECT_TRUE(inner.empty());
  EXPECT_NEAR(outer.to_vector()[1], std::exp(2.0) + 2, 1e-5);
  EXPECT_EQ(inner, (x * 2).to_vector());
}

}  // namespace
}  // namespace ebb
