// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/ops.h"

// Value and gradient of a loss, requested together, are one sweep over the data. Class indices and weights may need a
// sweep of their own first: over N numbers, not N × C.
namespace ebb {
namespace {

constexpr std::int64_t kRows = 64;

struct Sweeps {
  int large = 0, small = 0, exponentials = 0;
  std::string text;
};

// Sweeps over more than N elements are large.
Sweeps sweeps_of(const std::string& schedule) {
  Sweeps s;
  s.text = schedule;
  std::istringstream lines(schedule);
  bool large = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("sweep", 0) == 0) {
      std::int64_t size = 1, number = 0;
      for (char c : line) {
        if (std::isdigit(static_cast<unsigned char>(c))) {
          number = 10 * number + (c - '0');
        } else {
          if (number > 0) size *= number;
          number = 0;
        }
      }
      large = size > kRows;
      ++(large ? s.large : s.small);
    } else if (large && line.find("full") != std::string::npos && line.find("= exp ") != std::string::npos) {
      ++s.exponentials;
    }
  }
  return s;
}

Sweeps value_and_gradient(const FunctionOfMany& loss, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> v;
  for (const Tensor& x : inputs) v.push_back(variable(x));
  const Tensor value = loss(v);
  const Gradients g = backward(value, {.keep_history = true});
  std::vector<Tensor> together{value};
  for (const Tensor& x : v) together.push_back(g[x]);
  return sweeps_of(print_schedule(together));
}

struct OneSweepCase {
  const char* name;
  std::vector<Tensor> inputs;
  FunctionOfMany loss;
  int exponentials = 0;
};

class OneSweep : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(OneSweep, ForValueAndGradient) {
  const std::int64_t n = kRows, c = GetParam();
  const Tensor x = randn({n, c}).eval(), t = randn({n, c}).eval(), z = randn({n, c}).eval(), p = rand({n, c}).eval();
  const Tensor y = bernoulli({n, c}, 0.5).eval(), s = (2 * y - 1).eval(),
               row_sign = (2 * bernoulli({n}, 0.5) - 1).eval();
  const Tensor classes = randint(0, c, {n}).eval(), narrow = cast(classes, DType::i32).eval(), w = rand({c}).eval();
  const Tensor variance = rand({n, 1}).eval();
  using V = const std::vector<Tensor>&;
  const std::vector<OneSweepCase> cases{
      {"mse_loss", {x}, [&](V v) { return mse_loss(v[0], t); }},
      {"mse_loss, both", {x, t}, [&](V v) { return mse_loss(v[0], v[1]); }},
      {"l1_loss", {x}, [&](V v) { return l1_loss(v[0], t); }},
      {"smooth_l1_loss", {x}, [&](V v) { return smooth_l1_loss(v[0], t); }},
      {"huber_loss", {x}, [&](V v) { return huber_loss(v[0], t); }},
      {"cross_entropy", {x}, [&](V v) { return cross_entropy(v[0], classes); }, 1},
      {"cross_entropy, i32", {x}, [&](V v) { return cross_entropy(v[0], narrow); }, 1},
      {"cross_entropy, sum", {x}, [&](V v) { return cross_entropy(v[0], classes, {.reduction = Reduction::sum}); }, 1},
      {"cross_entropy, weight", {x}, [&](V v) { return cross_entropy(v[0], classes, {.weight = w}); }, 1},
      {"cross_entropy, smooth", {x}, [&](V v) { return cross_entropy(v[0], classes, {.label_smoothing = 0.1}); }, 1},
      {"cross_entropy, z", {x}, [&](V v) { return cross_entropy(v[0], classes, {.z_loss = 1e-4}); }, 1},
      {"cross_entropy, probabilities", {x}, [&](V v) { return cross_entropy(v[0], p); }, 1},
      {"softmax_focal_loss", {x}, [&](V v) { return softmax_focal_loss(v[0], classes); }, 1},
      {"binary_cross_entropy", {p}, [&](V v) { return binary_cross_entropy(v[0], y); }},
      {"bce_with_logits", {x}, [&](V v) { return binary_cross_entropy_with_logits(v[0], y); }, 1},
      {"bce_with_logits, pos_weight",
       {x},
       [&](V v) { return binary_cross_entropy_with_logits(v[0], y, {.pos_weight = w}); },
       1},
      {"multilabel_soft_margin_loss", {x}, [&](V v) { return multilabel_soft_margin_loss(v[0], y); }, 1},
      {"sigmoid_focal_loss", {x}, [&](V v) { return sigmoid_focal_loss(v[0], y); }, 1},
      {"focal_loss_on_probabilities", {p}, [&](V v) { return focal_loss_on_probabilities(v[0], y); }},
      {"hinge_loss", {x}, [&](V v) { return hinge_loss(v[0], s); }},
      {"hinge_embedding_loss", {x}, [&](V v) { return hinge_embedding_loss(v[0], s); }},
      {"margin_ranking_loss", {x, t}, [&](V v) { return margin_ranking_loss(v[0], v[1], s); }},
      {"soft_margin_loss", {x}, [&](V v) { return soft_margin_loss(v[0], s); }, 1},
      {"multi_margin_loss", {x}, [&](V v) { return multi_margin_loss(v[0], classes); }},
      {"multi_margin_loss, weight", {x}, [&](V v) { return multi_margin_loss(v[0], classes, {.weight = w}); }},
      {"triplet_margin_loss", {x, t, z}, [&](V v) { return triplet_margin_loss(v[0], v[1], v[2]); }},
      {"triplet, swap", {x, t, z}, [&](V v) { return triplet_margin_loss(v[0], v[1], v[2], {.swap = true}); }},
      {"cosine_embedding_loss", {x, t}, [&](V v) { return cosine_embedding_loss(v[0], v[1], row_sign); }},
      {"cosine_similarity_loss", {x, t}, [&](V v) { return cosine_similarity_loss(v[0], v[1]); }},
      {"kl_div", {x}, [&](V v) { return kl_div(v[0], p); }},
      {"kl_div, both", {x, p}, [&](V v) { return kl_div(v[0], v[1]); }},
      {"kl_div, log", {x}, [&](V v) { return kl_div(v[0], t, {.log_target = true}); }, 1},
      {"kl_divergence", {p, y + 0.5}, [&](V v) { return kl_divergence(v[0], v[1]); }},
      {"poisson_nll_loss", {x}, [&](V v) { return poisson_nll_loss(v[0], p); }, 1},
      {"gaussian_nll_loss", {x, p}, [&](V v) { return gaussian_nll_loss(v[0], t, v[1]); }},
      {"gaussian_nll_loss, row", {x, variance}, [&](V v) { return gaussian_nll_loss(v[0], t, v[1]); }},
  };
  for (const OneSweepCase& k : cases) {
    for (const Tensor& in : k.inputs) in.eval();
    const Sweeps sweeps = value_and_gradient(k.loss, k.inputs);
    EXPECT_EQ(sweeps.large, 1) << k.name << "\n" << sweeps.text;
    EXPECT_EQ(sweeps.exponentials, k.exponentials) << k.name << "\n" << sweeps.text;
  }
}
INSTANTIATE_TEST_SUITE_P(ShortAndLongRows, OneSweep, ::testing::Values(10, 1000, 50000));

// nll_loss reads one number per row and writes zeros around one: two library calls and no sweep over the data at all.
TEST(NoSweepAtAll, NllLoss) {
  const Tensor x = randn({kRows, 1000}, DType::f32).eval(), classes = randint(0, 1000, {kRows}).eval();
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Sweeps s = value_and_gradient([&](const std::vector<Tensor>& v) { return nll_loss(v[0], classes); },
                                        {cast(x, dtype).eval()});
    EXPECT_EQ(s.large, 0) << s.text;
  }
}

// The mean by weights reads the weights once before: two sweeps, of which the first writes single numbers. In halves,
// too, where the weights are widened for both.
TEST(OneSweepPlusWeights, MeanByWeights) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto make = [dtype](const Tensor& t) { return cast(t, dtype).eval(); };
    const Tensor x = make(randn({64, 1000})), t = make(randn({64, 1000})), w = make(rand({64, 1000}));
    const Sweeps s =
        value_and_gradient([&](const std::vector<Tensor>& v) { return mse_loss(v[0], t, {.weight = w}); }, {x});
    EXPECT_EQ(s.large, 2) << s.text;
    const std::size_t second = s.text.find("\nsweep");
    ASSERT_NE(second, std::string::npos);
    EXPECT_FALSE(std::regex_search(s.text.substr(0, second), std::regex("store .*1000"))) << s.text;
  }
}

int calls_in(const std::string& schedule, const std::string& name) {
  int n = 0;
  for (std::size_t at = 0; (at = schedule.find("call " + name, at)) != std::string::npos; ++at) ++n;
  return n;
}

// A loss with a kernel of its own: the call that computes the gradient computes the value as well, unless the
// gradient's cotangent depends on the value.
TEST(OneCall, ForValueAndGradientOfALossWithAKernel) {
  const Tensor log_p = log_softmax(randn({12, 3, 5})).eval(), labels = randint(1, 5, {3, 4}).eval();
  const Tensor steps = full({3}, 12).eval(), lengths = full({3}, 4).eval();
  const Tensor lattice = log_softmax(randn({2, 4, 3, 5})).eval(), few = randint(1, 5, {2, 2}).eval();
  const Tensor frames = full({2}, 4).eval(), counts = full({2}, 2).eval();
  const Tensor scores = randn({6, 9}).eval(), lists = randint(0, 9, {6, 9}).eval();
  const Tensor hidden = randn({8, 16, 32}).eval(), head = randn({64, 32}).eval(),
               words = randint(0, 64, {8, 16}).eval();
  const Tensor reference = randn({8}).eval();
  using V = const std::vector<Tensor>&;
  const std::vector<OneSweepCase> cases{
      {"ctc", {log_p}, [&](V v) { return ctc_loss(v[0], labels, steps, lengths); }},
      {"transducer", {lattice}, [&](V v) { return rnnt_loss(v[0], few, frames, counts); }},
      {"multilabel_hinges", {scores}, [&](V v) { return multilabel_margin_loss(v[0], lists); }},
      {"linear_cross_entropy", {hidden, head}, [&](V v) { return linear_cross_entropy(v[0], v[1], words); }},
      {"linear_cross_entropy", {hidden, head}, [&](V v) { return linear_dpo_loss(v[0], v[1], words, reference); }},
  };
  for (const OneSweepCase& k : cases) {
    const std::string together = value_and_gradient(k.loss, k.inputs).text;
    EXPECT_EQ(calls_in(together, k.name), 1) << together;
    const auto squared = [&](V v) { return square(k.loss(v)); };
    const std::string waiting = value_and_gradient(squared, k.inputs).text;
    EXPECT_EQ(calls_in(waiting, k.name), 2) << waiting;
  }
}

// |−x| is |x|: values of both share one exponential, however the sign came about.
TEST(OneExponential, OfAValueAndItsNegative) {
  const Tensor x = randn({kRows, 1000}).eval(), y = randn({kRows, 1000}).eval(), half = cast(x, DType::bf16).eval();
  const auto exponentials = [](const std::vector<Tensor>& all) { return sweeps_of(print_schedule(all)).exponentials; };
  EXPECT_EQ(exponentials({softplus(x), softplus(-x), sigmoid(-x), log_sigmoid(x)}), 1);
  EXPECT_EQ(exponentials({softplus(-(x * y)), sigmoid(x * y)}), 1);
  EXPECT_EQ(exponentials({softplus(-(0.3 * x)), softplus(0.3 * x)}), 1);
  EXPECT_EQ(exponentials({softplus(half), softplus(-half)}), 1);
  EXPECT_EQ(exponentials({softplus(x), softplus(y)}), 2);
  // To the bit what each is separately.
  const Tensor a = softplus(x), b = softplus(-x);
  eval({a, b});
  EXPECT_EQ(a.to_vector(), softplus(x).to_vector());
  EXPECT_EQ(b.to_vector(), softplus(-x).to_vector());
}

}  // namespace
}  // namespace ebb
