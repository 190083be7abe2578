// SPDX-License-Identifier: MIT
#include "ebb/losses/alignment.h"

#include "calls/alignment.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/describe.h"
#include "losses/one_pass.h"
#include "ops/build.h"

namespace ebb {
namespace {

struct LabelAlignment {
  Op op;
  const char* name;
  AlignmentCall call;
  Tensor log_probs, labels, input_lengths, label_lengths;

  std::int64_t samples() const { return input_lengths.shape()[0]; }

  Tensor call_of(int order, const Tensor& x, const Tensor& cotangent = {}, const Tensor& tangent = {}) const {
    AlignmentCall c = call;
    c.order = order;
    std::vector<Tensor> inputs{x, labels, input_lengths, label_lengths};
    std::vector<std::pair<Shape, DType>> outputs{{Shape{samples()}, compute_dtype(x.dtype())}};
    if (order >= 1) inputs.push_back(cotangent);
    if (order >= 2) inputs.push_back(tangent);
    if (order >= 1) outputs.emplace_back(x.shape(), x.dtype());
    NoHistory off;
    return make_call(op, inputs, with_options(c), std::move(outputs));
  }

  // The rule of the gradient d Σ g·losses / d x, for a cotangent u: to x   g·H·u  (the Hessian of each loss is
  // symmetric),   to g   ⟨u, ∇ loss⟩
  LossKernel kernel() const {
    LossKernel k;
    k.call = [self = *this](const Tensor& x, const Tensor& g) { return self.call_of(g.defined() ? 1 : 0, x, g); };
    k.second = [self = *this](const Tensor& u, const std::vector<Tensor>& in) {
      const Tensor second = self.call_of(2, in[0], in[1], cast(u, in[0].dtype()));
      const auto last = [&](int output) {
        return custom_function(
            [&](const std::vector<Tensor>&) { return output_of(second, output); },
            [name = self.name](const Tensor&, const Tensor&, const std::vector<Tensor>&) -> std::vector<Tensor> {
              fail(Error::Kind::value, "{}: third derivatives are not there; differentiate it at most twice", name);
            },
            {in[0], in[1], u});
      };
      return std::vector<Tensor>{last(1), last(0)};
    };
    return k;
  }

  Tensor losses() const { return kernel().losses(log_probs); }
  Tensor gradient(const Tensor& g) const { return kernel().gradient(log_probs, g); }
};

Tensor lengths(const char* op, const char* name, const Tensor& x, std::int64_t samples) {
  require(x.shape() == Shape{samples} || (samples == 1 && x.rank() == 0),
          "{}: {} has shape {}, but there are {} samples", op, name, x.shape(), samples);
  require(x.dtype() == DType::i64 || x.dtype() == DType::i32, Error::Kind::type, "{}: {} must be i64 or i32, got {}",
          op, name, x.dtype());
  return reshape(cast(x, DType::i64), {samples});
}

LabelAlignment alignment(Op op, const char* name, const Tensor& log_probs, int batch_axis, const Tensor& targets,
                         const Tensor& input_lengths, const Tensor& target_lengths, std::int64_t blank,
                         Reduction reduction) {
  require(is_floating(log_probs.dtype()), Error::Kind::type, "{}: log_probs must be floating, got {}", name,
          log_probs.dtype());
  require(targets.dtype() == DType::i64 || targets.dtype() == DType::i32, Error::Kind::type,
          "{}: targets must be labels, i64 or i32, got {}", name, targets.dtype());
  require(reduction != Reduction::batchmean, "{}: reduction must be none, mean or sum", name);
  const std::int64_t samples = log_probs.shape()[batch_axis], classes = log_probs.shape()[log_probs.rank() - 1];
  require(blank >= 0 && blank < classes, "{}: blank {} is outside [0, {})", name, blank, classes);
  LabelAlignment a;
  a.op = op;
  a.name = name;
  a.call.blank = blank;
  a.log_probs = log_probs;
  a.labels = cast(targets, DType::i64);
  a.input_lengths = lengths(name, "input_lengths", input_lengths, samples);
  a.label_lengths = lengths(name, "target_lengths", target_lengths, samples);
  return a;
}

// ---- ctc ------------------------------------------------------------------------------------------------------------

LabelAlignment ctc(const char* name, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths, const CtcOptions& o) {
  require(log_probs.rank() == 3 || log_probs.rank() == 2, "{}: log_probs must be [T, N, C] or [T, C], got shape {}",
          name, log_probs.shape());
  const Tensor x = log_probs.rank() == 3 ? log_probs : unsqueeze(log_probs, 1);
  require(targets.rank() == 1 || (targets.rank() == 2 && targets.shape()[0] == x.shape()[1]),
          "{}: targets of shape {} do not fit {} samples; give [N, S] or all labels in a row", name, targets.shape(),
          x.shape()[1]);
  LabelAlignment a = alignment(Op::ctc, name, x, 1, targets, input_lengths, target_lengths, o.blank, o.reduction);
  a.call.zero_infinity = o.zero_infinity;
  return a;
}

// Divisor of a sample's loss before averaging over the batch.
Tensor label_counts(const LabelAlignment& a) {
  return cast(maximum(a.label_lengths, 1), compute_dtype(a.log_probs.dtype()));
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& o) {
  const LabelAlignment a = ctc("ctc_loss", log_probs, targets, input_lengths, target_lengths, o);
  Tensor loss = a.losses();
  if (o.reduction == Reduction::mean) loss = mean(loss / label_counts(a));
  if (o.reduction == Reduction::sum) loss = sum(loss);
  if (o.reduction == Reduction::none && log_probs.rank() == 2) loss = reshape(loss, Sizes(Shape{}));
  return cast(loss, log_probs.dtype());
}

Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                         const Tensor& input_lengths, const Tensor& target_lengths, const CtcOptions& o) {
  const LabelAlignment a = ctc("ctc_loss_backward", log_probs, targets, input_lengths, target_lengths, o);
  const Shape expected = o.reduction == Reduction::none && log_probs.rank() == 3 ? Shape{a.samples()} : Shape{};
  require(grad.shape() == expected, "ctc_loss_backward: gradient of shape {}, the loss has shape {}", grad.shape(),
          expected);
  Tensor g = expand(reshape(cast(grad, compute_dtype(a.log_probs.dtype())), {-1}), {a.samples()});
  if (o.reduction == Reduction::mean) g = g / (label_counts(a) * static_cast<double>(a.samples()));
  return reshape(a.gradient(g), log_probs.shape());
}

// ---- transducer -----------------------------------------------------------------------------------------------------

static LabelAlignment transducer(const char* name, const Tensor& log_probs, const Tensor& targets,
                                 const Tensor& input_lengths, const Tensor& target_lengths, const RnntOptions& o) {
  require(log_probs.rank() == 4 && log_probs.shape()[2] >= 1, "{}: log_probs must be [N, T, U + 1, C], got shape {}",
          name, log_probs.shape());
  require(targets.rank() == 2 && targets.shape()[0] == log_probs.shape()[0] &&
              targets.shape()[1] + 1 == log_probs.shape()[2],
          "{}: targets of shape {} do not fit log_probs of shape {}; give [N, U] and [N, T, U + 1, C]", name,
          targets.shape(), log_probs.shape());
  return alignment(Op::transducer, name, log_probs, 0, targets, input_lengths, target_lengths, o.blank, o.reduction);
}

Tensor rnnt_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths, const RnntOptions& o) {
  const LabelAlignment a = transducer("rnnt_loss", log_probs, targets, input_lengths, target_lengths, o);
  Tensor loss = a.losses();
  if (o.reduction == Reduction::mean) loss = mean(loss);
  if (o.reduction == Reduction::sum) loss = sum(loss);
  return cast(loss, log_probs.dtype());
}

Tensor rnnt_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                          const Tensor& input_lengths, const Tensor& target_lengths, const RnntOptions& o) {
  const LabelAlignment a = transducer("rnnt_loss_backward", log_probs, targets, input_lengths, target_lengths, o);
  const Shape expected = o.reduction == Reduction::none ? Shape{a.samples()} : Shape{};
  require(grad.shape() == expected, "rnnt_loss_backward: gradient of shape {}, the loss has shape {}", grad.shape(),
          expected);
  Tensor g = expand(reshape(cast(grad, compute_dtype(log_probs.dtype())), {-1}), {a.samples()});
  if (o.reduction == Reduction::mean) g = g / static_cast<double>(a.samples());
  return a.gradient(g);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, CtcOptions& o) {
  v("blank", o.blank, "the label that stands for none");
  v("reduction", o.reduction);
  v("zero_infinity", o.zero_infinity, "a sample with no possible alignment counts 0");
}

template <class V>
void each_option(V& v, RnntOptions& o) {
  v("blank", o.blank, "the label that stands for none");
  v("reduction", o.reduction);
}

std::vector<LossInfo> alignment_entries() {
  return {
      describe("ctc_loss", "alignment", "−log Σ over alignments of Π p",
               {{"log_probs"}, {"targets", false}, {"input_lengths", false}, {"target_lengths", false}}, ctc_loss),
      describe("rnnt_loss", "alignment", "−log Σ over paths through the lattice of Π p",
               {{"log_probs"}, {"targets", false}, {"input_lengths", false}, {"target_lengths", false}}, rnnt_loss),
  };
}

}  // namespace ebb
