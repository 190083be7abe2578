// SPDX-License-Identifier: MIT
#include "ebb/nn/recurrent.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "golden_layers.h"

// Recurrent networks: one layer and several, one direction and both, from zeros and from states.
namespace ebb {
namespace {

using namespace nn;
using testing::f64;
using testing::follow;
using testing::waves;

TEST(Recurrent, GiveTheGoldenValues) {
  const auto output = [](auto& m, const Tensor& x) { return m(x).output; };
  follow("rnn", Rnn(4, 3, {.dtype = f64}), {2, 6, 4}, output);
  follow("rnn_relu", Rnn(4, 3, {.bias = false, .relu = true, .dtype = f64}), {2, 6, 4}, output);
  follow("lstm", Lstm(4, 3, {.dtype = f64}), {2, 6, 4}, output);
  follow("lstm_cell", Lstm(4, 3, {.dtype = f64}), {2, 6, 4}, [](auto& m, const Tensor& x) { return m(x).c; });
  follow("gru", Gru(4, 3, {.dtype = f64}), {2, 6, 4}, output);
}

// The output and the last states in one row.
Tensor all_of(const Sequence& s) {
  std::vector<Tensor> parts{flatten(s.output), flatten(s.h)};
  if (s.c.defined()) parts.push_back(flatten(s.c));
  return cat(parts, 0);
}

template <class Layer>
void follow_all(const std::string& name) {
  const auto call = [](auto& m, const Tensor& x) { return all_of(m(x)); };
  follow(name + "_deep", Layer(4, 3, {.num_layers = 3, .batch_first = false, .dtype = f64}), {5, 2, 4}, call);
  follow(name + "_both", Layer(4, 3, {.bidirectional = true, .dtype = f64}), {2, 5, 4}, call);
  follow(name + "_deep_both",
         Layer(4, 3, {.bias = false, .num_layers = 2, .bidirectional = true, .batch_first = false, .dtype = f64}),
         {5, 2, 4}, call);
  follow(name + "_from_states", Layer(4, 3, {.num_layers = 2, .bidirectional = true, .dtype = f64}), {2, 5, 4},
         [](auto& m, const Tensor& x) {
           const Tensor h = waves({4, 2, 3}, 7), c = waves({4, 2, 3}, 8);
           if constexpr (std::is_same_v<Layer, Lstm>)
             return all_of(m(x, h, c));
           else
             return all_of(m(x, h));
         });
}

TEST(Recurrent, DeepAndBothWaysGiveTheGoldenValues) {
  follow_all<Rnn>("rnn");
  follow_all<Lstm>("lstm");
  follow_all<Gru>("gru");
}

TEST(Recurrent, HaveTorchsNames) {
  Gru gru(4, 3, {.num_layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const Parameter& p : state(gru)) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                                             "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
                                             "bias_hh_l0_reverse", "weight_ih_l1", "weight_hh_l1", "bias_ih_l1",
                                             "bias_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse",
                                             "bias_ih_l1_reverse", "bias_hh_l1_reverse"}));
  EXPECT_EQ(gru.weights[2].weight_ih.shape(), (Shape{9, 6}));
  Lstm lstm(4, 3, {.bias = false, .num_layers = 2});
  names.clear();
  for (const Parameter& p : parameters(lstm)) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "weight_ih_l1", "weight_hh_l1"}));
}

// h = R·(o·tanh(c)): the second step sees the projected h.
TEST(Recurrent, AnLstmCanProjectItsOutput) {
  const Lstm lstm(4, 6, {.proj_size = 3, .dtype = f64});
  const RecurrentWeights& w = lstm.weights[0];
  EXPECT_EQ(w.weight_hh.shape(), (Shape{24, 3}));
  EXPECT_EQ(w.weight_hr.shape(), (Shape{3, 6}));
  const Tensor x = waves({2, 2, 4}, 5);
  const Sequence s = lstm(x);
  Tensor h = zeros({2, 3}, f64), c = zeros({2, 6}, f64);
  for (int step = 0; step < 2; ++step) {
    const Tensor sums = matmul(select(x, 1, step), t(w.weight_ih)) + w.bias_ih + matmul(h, t(w.weight_hh)) + w.bias_hh;
    const auto gates = chunk(sums, 4, 1);
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    h = matmul(sigmoid(gates[3]) * tanh(c), t(w.weight_hr));
  }
  EXPECT_TRUE(allclose(s.h[0], h, {.rtol = 1e-12}));
  EXPECT_TRUE(allclose(s.c[0], c, {.rtol = 1e-12}));
  EXPECT_EQ(s.output.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(Lstm(4, 6, {.num_layers = 2, .bidirectional = true, .proj_size = 3})(randn({1, 3, 4})).output.shape(),
            (Shape{1, 3, 6}));
  EXPECT_THROW_MESSAGE(Gru(4, 6, {.proj_size = 3}), "proj_size is for an Lstm");
  EXPECT_THROW_MESSAGE(Lstm(4, 6, {.proj_size = 6}), "must be less than the hidden size 6");
}

TEST(Recurrent, GoOnFromTheirState) {
  const Lstm lstm(4, 3, {.num_layers = 2});
  const Tensor x = randn({2, 6, 4});
  const Sequence whole = lstm(x), first = lstm(x.slice(1, 0, 2)), second = lstm(x.slice(1, 2, 6), first.h, first.c);
  EXPECT_EQ(whole.h.shape(), (Shape{2, 2, 3}));
  EXPECT_TRUE(allclose(second.h, whole.h, {.rtol = 1e-5, .atol = 1e-6}));
  EXPECT_TRUE(allclose(second.c, whole.c, {.rtol = 1e-5, .atol = 1e-6}));
}

TEST(Recurrent, DropBetweenLayersWhileTraining) {
  Gru gru(4, 3, {.num_layers = 2, .dropout = 1});
  const Tensor x = randn({2, 5, 4});
  Gru second(3, 3);
  second.weights[0] = gru.weights[1];
  EXPECT_TRUE(allclose(gru(x).output, second(zeros({2, 5, 3})).output, {.atol = 1e-6}));  // everything is dropped
  set_training(gru, false);
  Gru first(4, 3);
  first.weights[0] = gru.weights[0];
  EXPECT_TRUE(allclose(gru(x).output, second(first(x).output).output, {.atol = 1e-6}));
  Gru half(4, 3, {.num_layers = 2, .dropout = 0.5}), one(4, 3, {.dropout = 0.5});
  EXPECT_FALSE(allclose(half(x).output, half(x).output));
  EXPECT_TRUE(allclose(one(x).output, one(x).output));  // no dropout in between
}

TEST(Recurrent, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(Gru(4, 3)(ones({2, 0, 4})), "Gru: the input has no time steps, its shape is [2, 0, 4]");
  EXPECT_THROW_MESSAGE(Lstm(4, 3)(ones({2, 6, 5})), "Lstm: the input must have shape [batch, time, 4], got [2, 6, 5]");
  EXPECT_THROW_MESSAGE(Lstm(4, 3, {.batch_first = false})(ones({6, 4})),
                       "Lstm: the input must have shape [time, batch, 4], got [6, 4]");
  EXPECT_THROW_MESSAGE(Rnn(4, 3)(ones({2, 6, 4}), ones({3})), "Rnn: the state must have shape [1, 2, 3], got [3]");
  EXPECT_THROW_MESSAGE(Lstm(4, 3, {.bidirectional = true})(ones({2, 6, 4}), {}, ones({1, 2, 3})),
                       "Lstm: the state must have shape [2, 2, 3], got [1, 2, 3]");
  EXPECT_THROW_MESSAGE(Rnn(4, 0), "Rnn: the hidden size must be positive, got 0 for 4 inputs");
  EXPECT_THROW_MESSAGE(Rnn(4, 3, {.num_layers = 0}), "Rnn: num_layers must be positive, got 0");
}

}  // namespace
}  // namespace ebb
