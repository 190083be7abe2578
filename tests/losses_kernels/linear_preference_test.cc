// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/losses/linear_heads.h"
#include "ebb/losses/preference.h"
#include "expect_error.h"
#include "losses_kernels/numbers.h"

// The losses of answers through an LM head compared with the same losses of stored logits, for every way to cut the
// batch into groups.
namespace ebb {
namespace {

using testing::classes;
using testing::expect_near;
using testing::same_bits;
using testing::values;

constexpr std::int64_t kAnswers = 10, kTokens = 3, kHidden = 8, kVocabulary = 700;  // a pair has six rows

// Everything a loss may need; x, head and bias first, then other inputs with gradients.
struct Batch {
  Tensor x = values({kAnswers, kTokens, kHidden}, 1), head = values({kVocabulary, kHidden}, 2),
         bias = values({kVocabulary}, 3);
  Tensor reference = values({kAnswers}, 4, 2) - 15, advantages = values({kAnswers}, 5);
  Tensor old = values({kAnswers, kTokens}, 6, 0.3) - 6.5, old_reference = values({kAnswers, kTokens}, 7, 0.3) - 6.5;
  std::vector<Tensor> inputs() const { return {x, head, bias, reference, advantages, old, old_reference}; }
};

// Some tokens are ignored; of answer 2 either all, or all but one.
Tensor targets(bool whole_answer_ignored) {
  const Tensor at = arange(kAnswers * kTokens), y = classes(kAnswers * kTokens, kVocabulary);
  Tensor dropped = remainder(at, 7) == 4;
  if (whole_answer_ignored) dropped = logical_or(dropped, logical_and(at >= 6, at < 9));
  return reshape(where(dropped, -100, y), {kAnswers, kTokens});
}

struct PreferenceLoss {
  const char* name;
  bool average;  // needs one token an answer that counts
  // For inputs in the order of Batch, through the head and from log-probabilities of tokens [A, T].
  std::function<Tensor(const std::vector<Tensor>& in, const Tensor& target, const LinearLogProbOptions& h, Reduction)>
      fused;
  std::function<Tensor(const std::vector<Tensor>& in, const Tensor& tokens, const Tensor& kept, Reduction)> plain;
};

Tensor chosen(const Tensor& both) { return narrow(both, 0, 0, kAnswers / 2); }
Tensor rejected(const Tensor& both) { return narrow(both, 0, kAnswers / 2, kAnswers / 2); }
Tensor total(const Tensor& tokens) { return sum(tokens, -1); }
Tensor average(const Tensor& tokens, const Tensor& kept) { return total(tokens) / sum(cast(kept, tokens.dtype()), -1); }
Tensor good() { return remainder(arange(kAnswers), 3) == 1; }

std::vector<PreferenceLoss> preference_losses() {
  using In = std::vector<Tensor>;
  using Head = LinearLogProbOptions;
  std::vector<PreferenceLoss> all;
  all.push_back({"dpo", false,
                 [](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_dpo_loss(in[0], in[1], y, in[3], {.beta = 0.7, .label_smoothing = 0.1, .reduction = r},
                                          h);
                 },
                 [](const In& in, const Tensor& l, const Tensor&, Reduction r) {
                   return dpo_loss(chosen(total(l)), rejected(total(l)), chosen(in[3]), rejected(in[3]),
                                   {.beta = 0.7, .label_smoothing = 0.1, .reduction = r});
                 }});
  all.push_back({"ipo", false,
                 [](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_ipo_loss(in[0], in[1], y, in[3], {.beta = 0.7, .reduction = r}, h);
                 },
                 [](const In& in, const Tensor& l, const Tensor&, Reduction r) {
                   return ipo_loss(chosen(total(l)), rejected(total(l)), chosen(in[3]), rejected(in[3]),
                                   {.beta = 0.7, .reduction = r});
                 }});
  all.push_back({"orpo", true,
                 [](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_orpo_loss(in[0], in[1], y, {.beta = 0.7, .reduction = r}, h);
                 },
                 [](const In&, const Tensor& l, const Tensor& kept, Reduction r) {
                   return orpo_loss(chosen(average(l, kept)), rejected(average(l, kept)),
                                    {.beta = 0.7, .reduction = r});
                 }});
  all.push_back({"simpo", true,
                 [](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_simpo_loss(in[0], in[1], y, {.gamma = 0.4, .reduction = r}, h);
                 },
                 [](const In&, const Tensor& l, const Tensor& kept, Reduction r) {
                   return simpo_loss(chosen(average(l, kept)), rejected(average(l, kept)),
                                     {.gamma = 0.4, .reduction = r});
                 }});
  all.push_back({"cpo", false,
                 [](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_cpo_loss(in[0], in[1], y, {.beta = 0.3, .alpha = 0.6, .reduction = r}, h);
                 },
                 [](const In&, const Tensor& l, const Tensor&, Reduction r) {
                   return cpo_loss(chosen(total(l)), rejected(total(l)), {.beta = 0.3, .alpha = 0.6, .reduction = r});
                 }});
  const Tensor kl = tensor(0.2, DType::f64);
  all.push_back({"kto", false,
                 [kl](const In& in, const Tensor& y, const Head& h, Reduction r) {
                   return linear_kto_loss(in[0], in[1], y, in[3], good(),
                                          {.beta = 0.3, .undesirable_weight = 0.8, .kl = kl, .reduction = r}, h);
                 },
                 [kl](const In& in, const Tensor& l, const Tensor&, Reduction r) {
                   return kto_loss(total(l), in[3], good(),
                                   {.beta = 0.3, .undesirable_weight = 0.8, .kl = kl, .reduction = r});
                 }});
  for (bool by_token : {false, true}) {
    all.push_back(
        {by_token ? "grpo by token" : "grpo", false,
         [by_token](const In& in, const Tensor& y, const Head& h, Reduction r) {
           return linear_grpo_loss(
               in[0], in[1], y, in[4],
               {.beta = 0.3, .old = in[5], .reference = in[6], .by_token = by_token, .reduction = r}, h);
         },
         [by_token](const In& in, const Tensor& l, const Tensor& kept, Reduction r) {
           return grpo_loss(
               l, in[4],
               {.beta = 0.3, .old = in[5], .reference = in[6], .mask = kept, .by_token = by_token, .reduction = r});
         }});
  }
  static const std::pair<const char*, GrpoLossType> kTypes[] = {
      {"bnpo", GrpoLossType::bnpo},   {"dr_grpo", GrpoLossType::dr_grpo}, {"dapo", GrpoLossType::dapo},
      {"cispo", GrpoLossType::cispo}, {"gspo", GrpoLossType::gspo},       {"sapo", GrpoLossType::sapo},
      {"luspo", GrpoLossType::luspo}};
  for (const auto& [name, type] : kTypes) {
    all.push_back(
        {name, false,
         [type = type](const In& in, const Tensor& y, const Head& h, Reduction r) {
           return linear_grpo_loss(
               in[0], in[1], y, in[4],
               {.loss_type = type, .beta = 0.3, .old = in[5], .reference = in[6], .delta = 1.4, .reduction = r}, h);
         },
         [type = type](const In& in, const Tensor& l, const Tensor& kept, Reduction r) {
           return grpo_loss(l, in[4],
                            {.loss_type = type,
                             .beta = 0.3,
                             .old = in[5],
                             .reference = in[6],
                             .mask = kept,
                             .delta = 1.4,
                             .reduction = r});
         }});
  }
  all.push_back(
      {"dft", false,
       [](const In& in, const Tensor& y, const Head& h, Reduction r) {
         return linear_dft_loss(in[0], in[1], y, {.token_weight = square(in[5]), .reduction = r}, h);
       },
       [](const In& in, const Tensor& l, const Tensor& kept, Reduction r) {
         const Tensor w = stop_gradient(square(in[5]));
         const Tensor terms = where(kept, -exp(stop_gradient(l)) * l * w, 0);
         return r == Reduction::none ? terms : r == Reduction::sum ? sum(terms) : sum(terms) / sum(where(kept, w, 0));
       }});
  return all;
}

// log p(target) of logits in memory.
Tensor token_log_probs(const std::vector<Tensor>& in, const Tensor& target, const LinearLogProbOptions& h) {
  const Tensor kept = target != -100;
  Tensor z = matmul(in[0], t(in[1]));
  if (h.bias.defined()) z = z + h.bias;
  if (h.softcap != 0) z = h.softcap * tanh(z / h.softcap);
  z = z / h.temperature;
  const Tensor l = gather(log_softmax(z, -1), -1, unsqueeze(where(kept, target, 0), -1));
  return where(kept, squeeze(l, -1), 0);
}

struct Head {
  const char* name;
  bool bias;
  double softcap, temperature;
};
const Head kHeads[] = {{"plain", false, 0, 1}, {"bias and temperature", true, 0, 1.6}, {"softcap", true, 2, 1}};

// The loss and the gradients of all inputs, for a cotangent that is not one.
std::vector<Tensor> results(const std::vector<Tensor>& at, const Head& head, std::int64_t chunk,
                            const std::function<Tensor(const std::vector<Tensor>&, const LinearLogProbOptions&)>& f) {
  std::vector<Tensor> in;
  for (const Tensor& t : at) in.push_back(variable(t));
  LinearLogProbOptions h;
  if (head.bias) h.bias = in[2];
  h.softcap = head.softcap;
  h.temperature = head.temperature;
  h.chunk = chunk;
  const Tensor loss = f(in, h);
  const Tensor cotangent = cast(values(loss.shape(), 9), DType::bf16);  // the same number in every dtype
  const Gradients g = backward(loss, {.grad = cast(cotangent, loss.dtype())});
  std::vector<Tensor> out{loss};
  for (const Tensor& t : in) out.push_back(g[t]);
  eval(out);
  return out;
}

std::vector<Tensor> fused(const PreferenceLoss& l, const std::vector<Tensor>& at, const Tensor& target,
                          const Head& head, std::int64_t chunk, Reduction reduction = Reduction::mean) {
  return results(at, head, chunk, [&](const auto& in, const auto& h) { return l.fused(in, target, h, reduction); });
}

std::vector<Tensor> plain_preference(const PreferenceLoss& l, const std::vector<Tensor>& at, const Tensor& target,
                                     const Head& head, Reduction reduction = Reduction::mean) {
  return results(at, head, 0, [&](const auto& in, const auto& h) {
    return l.plain(in, token_log_probs(in, target, h), target != -100, reduction);
  });
}

// Chunks of one row; less than a pair or an answer; a pair; two pairs, which do not divide five; all.
TEST(LinearPreference, IsTheLossOfLogitsForEveryChunkAndReduction) {
  const std::vector<Tensor> in = Batch().inputs();
  for (const PreferenceLoss& l : preference_losses()) {
    const Tensor target = targets(!l.average);
    for (const Head& head : kHeads) {
      for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        const std::vector<Tensor> expected = plain_preference(l, in, target, head, reduction);
        for (std::int64_t chunk : {0, 1, 2, 4, 6, 13, 100}) {
          SCOPED_TRACE(std::string(l.name) + ", " + head.name + ", chunk " + std::to_string(chunk));
          const std::vector<Tensor> got = fused(l, in, target, head, chunk, reduction);
          for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(got[i].shape(), expected[i].shape());
            expect_near(got[i], expected[i].to_vector(), 1e-11);
          }
        }
      }
    }
  }
}

TEST(LinearPreference, HalvesAreComputedInSingleAndRoundedOnce) {
  for (const PreferenceLoss& l : preference_losses()) {
    const Tensor target = targets(!l.average);
    for (const auto& [dtype, instructions] : testing::kRoundings) {
      const testing::Bf16Instructions scope(instructions);
      std::vector<Tensor> in = Batch().inputs(), wide;
      for (Tensor& t : in) {
        t = cast(t, dtype).eval();
        wide.push_back(cast(t, DType::f64));
      }
      const Head head{"bias", true, 0, 1};
      const std::vector<Tensor> exact = plain_preference(l, wide, target, head);
      for (std::int64_t chunk : {0, 4, 13}) {
        SCOPED_TRACE(std::string(l.name) + ", " + std::string(name(dtype)) + ", chunk " + std::to_string(chunk));
        testing::expect_rounded_once(fused(l, in, target, head, chunk), exact, dtype, 1e-5);
      }
    }
  }
}

TEST(LinearPreference, SecondDerivativesAreThoseOfTheLossOfLogits) {
  const std::vector<Tensor> in = Batch().inputs();
  // Σ over inputs of the gradient's change in directions v.
  const auto second = [&](const FunctionOfMany& loss) {
    return grad(FunctionOfMany([&](const std::vector<Tensor>& at) {
      const std::vector<Tensor> g = grad(loss)(at);
      Tensor sum_of = zeros({}, DType::f64);
      for (std::size_t k = 0; k < g.size(); ++k)
        sum_of = sum_of + sum(g[k] * values(g[k].shape(), 20 + static_cast<int>(k)));
      return sum_of;
    }))(in);
  };
  for (const PreferenceLoss& l : preference_losses()) {
    SCOPED_TRACE(l.name);
    const Tensor target = targets(!l.average);
    const auto head = [](const std::vector<Tensor>& at) { return LinearLogProbOptions{.bias = at[2], .chunk = 13}; };
    const std::vector<Tensor> got =
        second([&](const std::vector<Tensor>& at) { return l.fused(at, target, head(at), Reduction::mean); });
    const std::vector<Tensor> expected = second([&](const std::vector<Tensor>& at) {
      return l.plain(at, token_log_probs(at, target, head(at)), target != -100, Reduction::mean);
    });
    for (std::size_t k = 0; k < got.size(); ++k) expect_near(got[k], expected[k].to_vector(), 1e-10);
  }
}

TEST(LinearPreference, OnlyWhatIsAskedForIsComputed) {
  const Batch b;
  const Tensor target = targets(true);
  const PreferenceLoss dpo = preference_losses()[0];
  const std::vector<Tensor> all = fused(dpo, b.inputs(), target, kHeads[1], 13);
  for (std::size_t asked = 0; asked < 4; ++asked) {
    std::vector<Tensor> in = b.inputs();
    in[asked] = variable(in[asked]);
    const Tensor loss =
        dpo.fused(in, target, {.bias = in[2], .temperature = kHeads[1].temperature, .chunk = 13}, Reduction::mean);
    const Gradients g = backward(loss, {.grad = cast(cast(values({}, 9), DType::bf16), DType::f64)});
    EXPECT_EQ(g.all().size(), 1u);
    EXPECT_TRUE(same_bits(g[in[asked]], all[asked + 1])) << "input " << asked;
    EXPECT_TRUE(same_bits(loss, all[0]));
  }
}

std::size_t calls_in(const std::string& text) {
  std::size_t calls = 0;
  for (std::size_t at = text.find("call "); at != std::string::npos; at = text.find("call ", at + 1)) ++calls;
  return calls;
}

TEST(LinearPreference, ValueAndGradientsTogetherAreOneCall) {
  for (const PreferenceLoss& l : preference_losses()) {
    SCOPED_TRACE(l.name);
    std::vector<Tensor> in = Batch().inputs();
    in[0] = variable(in[0]);
    in[1] = variable(in[1]);
    const Tensor target = targets(false);
    const Tensor loss = l.fused(in, target, {.chunk = 13}, Reduction::mean);
    EXPECT_EQ(calls_in(print_schedule({loss})), 1u);
    const Gradients g = backward(loss);
    const std::string text = print_schedule({loss, g[in[0]], g[in[1]]});
    EXPECT_EQ(calls_in(text), 1u) << text;
  }
}

TEST(LinearPreference, TheValueMayComeFirstAlongWithOrAfterItsGradient) {
  const Batch b;
  const Tensor target = targets(true);
  const PreferenceLoss dpo = preference_losses()[0];
  const auto run = [&](bool value_first) {
    std::vector<Tensor> in = b.inputs();
    in[0] = variable(in[0]);
    const Tensor loss = dpo.fused(in, target, {.chunk = 13}, Reduction::mean);
    if (value_first) loss.eval();
    const Tensor g = backward(loss)[in[0]];
    return std::pair{loss.item(), g};
  };
  const auto together = run(false), first = run(true);
  EXPECT_EQ(together.first, first.first);
  EXPECT_TRUE(same_bits(together.second, first.second));
  Eager eager;
  const auto eagerly = run(false);
  EXPECT_EQ(together.first, eagerly.first);
  EXPECT_TRUE(same_bits(together.second, eagerly.second));
}

TEST(LinearPreference, ACheckpointedLossHasTheSameGradient) {
  const Batch b;
  const Tensor target = targets(true);
  const auto loss = [&](const Tensor& x) {
    return linear_dpo_loss(sin(x), b.head, target, b.reference, {}, {.chunk = 13});
  };
  const Tensor x = variable(b.x), y = variable(b.x);
  const Tensor plainly = loss(x), again = checkpoint(loss, y);
  EXPECT_TRUE(same_bits(backward(plainly)[x], backward(again)[y]));
  EXPECT_EQ(plainly.item(), again.item());
}

TEST(LinearPreference, ALossOfTheLossTakesItsValueFirst) {
  const std::vector<Tensor> in = Batch().inputs();
  const Tensor target = targets(true);
  const PreferenceLoss dpo = preference_losses()[0];
  const auto square_of = [&](const auto& f) {
    return results(in, kHeads[0], 13, [&](const auto& at, const auto& h) { return square(f(at, h)); });
  };
  const auto got = square_of([&](const auto& at, const auto& h) { return dpo.fused(at, target, h, Reduction::mean); });
  const auto expected = square_of([&](const auto& at, const auto& h) {
    return dpo.plain(at, token_log_probs(at, target, h), target != -100, Reduction::mean);
  });
  for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i].to_vector(), 1e-11);
}

// Calls that differ only in the given formula are not merged.
TEST(LinearPreference, DifferentLossesOfTheSameInputsStayApart) {
  const Batch b;
  const Tensor target = targets(true);
  const auto gradient = [&](double first, double second) {
    const Tensor x = variable(b.x);
    Tensor loss = linear_dpo_loss(x, b.head, target, b.reference, {.beta = first});
    if (second != 0) loss = loss + linear_dpo_loss(x, b.head, target, b.reference, {.beta = second});
    return backward(loss)[x];
  };
  expect_near(gradient(0.1, 0.9), (gradient(0.1, 0) + gradient(0.9, 0)).to_vector(), 1e-13);
}

TEST(LinearPreference, BitsDoNotDependOnThreads) {
  for (const PreferenceLoss& l : preference_losses()) {
    const Tensor target = targets(!l.average);
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      for (std::int64_t chunk : {4, 13}) {
        SCOPED_TRACE(l.name);
        std::vector<Tensor> in = Batch().inputs();
        for (Tensor& t : in) t = cast(t, dtype).eval();
        testing::expect_same_for_all_threads([&] { return fused(l, in, target, kHeads[1], chunk); });
      }
    }
  }
}

TEST(LinearPreference, AnswersThatDoNotCount) {
  // All tokens: a difference of zero, and no gradient.
  const Tensor x = variable(Batch().x), head = variable(Batch().head), none = full({kAnswers, kTokens}, -100);
  const Tensor loss = linear_cpo_loss(x, head, none);
  const Gradients g = backward(loss);
  EXPECT_NEAR(loss.item(), std::log(2.0), 1e-15);
  expect_near(g[x], std::vector<double>(static_cast<std::size_t>(x.numel()), 0.0), 0);
  expect_near(g[head], std::vector<double>(static_cast<std::size_t>(head.numel()), 0.0), 0);
  // The average of nothing is NaN, and only its own pair is affected.
  const Tensor vx = variable(Batch().x);
  const Tensor terms = linear_simpo_loss(vx, head, targets(true), {.reduction = Reduction::none}, {.chunk = 6});
  const Tensor dx = backward(sum(terms))[vx];
  for (int pair = 0; pair < 5; ++pair) {
    EXPECT_EQ(std::isnan(terms.to_vector()[static_cast<std::size_t>(pair)]), pair == 2);
    for (double v : narrow(dx, 0, pair, 1).to_vector()) EXPECT_FALSE(std::isnan(v)) << pair;
    for (double v : narrow(dx, 0, pair + 5, 1).to_vector()) EXPECT_TRUE(pair == 2 || !std::isnan(v)) << pair;
  }
}

// Besides inputs and gradients: the logits of a chunk, however many pairs there are and however long they are.
TEST(LinearPreference, MemoryIsBoundedByTheChunk) {
  struct Size {
    std::int64_t answers, tokens, classes, chunk, rows;  // rows whose logits may be stored
    DType dtype;
  };
  for (const Size& s : {Size{16, 16, 32000, 40, 40, DType::f32},      // a pair of 32 rows fits
                        Size{16, 16, 32000, 16, 16, DType::f32},      // and does not
                        Size{16, 16, 32000, 40, 40, DType::bf16},     //
                        Size{12, 50, 128256, 0, 256, DType::f32},     // the chunk Ebb chooses holds two pairs
                        Size{4, 150, 128256, 0, 300, DType::f32},     // grows for a pair that needs more
                        Size{4, 260, 128256, 0, 256, DType::f32}}) {  // but not indefinitely
    const std::int64_t width = 16, rows = s.answers * s.tokens;
    const Tensor x = cast(randn({s.answers, s.tokens, width}), s.dtype).eval();
    const Tensor head = cast(randn({s.classes, width}) * 0.1, s.dtype).eval();
    const Tensor target = randint(0, s.classes, {s.answers, s.tokens}).eval();
    const std::size_t gradients = static_cast<std::size_t>((rows + s.classes) * width) * size_of(s.dtype);
    // The chunk that Ebb chooses on a GPU has room for all rows here.
    const std::int64_t stored = s.chunk == 0 && testing::on_gpu() ? rows : s.rows;
    const std::size_t logits = static_cast<std::size_t>(stored * s.classes) * 4;
    // Memory of packed factors (each thread its own columns, if those suffice to keep all busy), and of sums along
    // 128,256 terms; and the pool rounds the logits' size up.
    const std::size_t small_change =
        logits / 16 + (std::size_t{5} << 20) + (std::size_t{1400} << 10) * static_cast<std::size_t>(num_threads());
    synchronize(default_device());  // work in progress has memory of its own
    const std::size_t live = memory_stats().live;
    reset_peak_memory();
    {
      const Tensor vx = variable(x), vh = variable(head);
      const Tensor loss = linear_cpo_loss(vx, vh, target, {}, {.chunk = s.chunk});
      const Gradients g = backward(loss);
      loss.eval();
      EXPECT_TRUE(g[vh].evaluated());
    }
    EXPECT_LE(memory_stats().peak - live, gradients + logits + small_change) << s.classes << " classes";
    if (stored < rows) {
      EXPECT_LT(memory_stats().peak - live, static_cast<std::size_t>(rows * s.classes) * 4);
    }
    reset_peak_memory();
    linear_cpo_loss(variable(x), variable(head), target, {}, {.chunk = s.chunk}).eval();
    EXPECT_LE(memory_stats().peak - live, logits + small_change);
  }
}

TEST(LinearPreference, NamesWhatIsWrong) {
  const Batch b;
  const Tensor target = targets(false);
  const Tensor x = variable(b.x);
  EXPECT_THROW_MESSAGE(linear_kto_loss(x, b.head, reshape(target, {kAnswers * kTokens}), b.reference, good()),
                       "linear_kto_loss: target must be [B, T]");
  EXPECT_THROW_MESSAGE(linear_grpo_loss(x, b.head, t(target), values({kTokens})),
                       "linear_grpo_loss: hidden states of shape [10, 3, 8] and target of shape [3, 10] do not fit");
  EXPECT_THROW_MESSAGE(linear_grpo_loss(x, b.head, target, values({4})), "do not fit 10 answers");
  EXPECT_THROW_MESSAGE(linear_grpo_loss(x, b.head, target, b.advantages, {.old = values({3})}),
                       "policy of shape [10, 3] and old of shape [3]");
  EXPECT_THROW_MESSAGE(linear_dpo_loss(x, b.head, target, values({4})), "must have the same shape");
  EXPECT_THROW_MESSAGE(linear_dpo_loss(x, b.head, target, b.reference, {.reduction = Reduction::batchmean}),
                       "batchmean");
  EXPECT_THROW_MESSAGE(linear_kto_loss(x, b.head, target, b.reference, good(), {.kl = values({2})}),
                       "kl must be one number");
  const Tensor outside = linear_cpo_loss(x, b.head, where(target == 5, kVocabulary, target));
  const Tensor g = backward(outside)[x];
  EXPECT_THROW_MESSAGE(g.eval(), "= 700 is outside [0, 700)");
}

}  // namespace
}  // namespace ebb
