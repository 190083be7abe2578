// SPDX-License-Identifier: MIT
#include "losses/linear_answers.h"

#include "ebb/ops.h"
#include "losses/linear_rows.h"
#include "losses/one_pass.h"
#include "ops/build.h"

// The gradient of a row's logits is its cotangent times softmax − [c = y], and the cotangent depends on the
// log-probabilities of the whole answer, or of the pair. So the kernel is given the formula of the terms: it computes
// the logits of as many answers as fit into a chunk, gets the cotangents from the formula, and continues with the
// gradients while the logits are in memory. That takes three products; computing all log-probabilities first and the
// logits again takes four.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

class Answers {
 public:
  Answers(const LinearRows& rows, std::int64_t answers, std::int64_t tokens, const AnswerLoss& loss)
      : c_(rows.c), terms_(loss.terms), reduce_(loss.reduce), operands_(rows.o.list().size()) {
    units_.sides = loss.sides;
    units_.units = answers / loss.sides;
    units_.tokens = tokens;
    units_.cotangents = [terms = terms_](const Tensor& losses, const Tensors& further) {
      NoHistory off;
      const Tensors others(further.begin() + 1, further.end());
      const auto of_losses = [&](const Tensors& v) { return terms(-v[0], others); };
      const Tensor found = pull_through(of_losses, {losses}, further[0])[0];
      return found.defined() ? found : zeros(losses.shape(), losses.dtype());
    };
  }

  // The loss by its formula. Its gradients are correct, but compute the logits twice.
  Tensor plain(const Tensors& inputs) const {
    return of_losses(row_losses({LinearOperands::of(inputs, c_), c_}), further(inputs));
  }

  // The cotangents of all inputs.
  Tensors gradients(const Tensor& grad, const Tensors& inputs) const {
    const LinearOperands o = LinearOperands::of(inputs, c_);
    const LinearCrossEntropyCall asked = with_gradients({o, c_});
    const Tensors others = further(inputs);
    bool others_asked = false;
    for (const Tensor& t : others) others_asked |= t.node()->history != 0;
    Tensors values(inputs.size());
    {
      NoHistory off;
      Tensor losses;
      if (asked.gradients()) {
        const Tensor call = call_of(o, asked, grad, others);
        losses = output_of(call, 0);
        int next = 1;
        if (asked.input_gradient) values[0] = output_of(call, next++);
        if (asked.head_gradient) values[1] = output_of(call, next++);
        if (asked.bias_gradient) values[3] = output_of(call, next++);
      } else {
        losses = row_losses({o, c_});
      }
      if (others_asked) {
        const Tensors found = pull_through([&](const Tensors& v) { return of_losses(losses, v); }, others, grad);
        for (std::size_t k = 0; k < others.size(); ++k)
          if (others[k].node()->history != 0) values[operands_ + k] = found[k];
      }
    }
    return differentiated_cotangents([self = *this](const Tensors& v) { return self.plain(v); }, std::move(values),
                                     inputs, grad);
  }

 private:
  Tensors further(const Tensors& inputs) const {
    return {inputs.begin() + static_cast<std::ptrdiff_t>(operands_), inputs.end()};
  }

  Tensor of_losses(const Tensor& losses, const Tensors& further) const {
    return reduce_(terms_(reshape(-losses, {units_.sides * units_.units, units_.tokens}), further));
  }

  // The reduction is linear: a term's cotangent does not depend on the terms.
  Tensor call_of(const LinearOperands& o, const LinearCrossEntropyCall& asked, const Tensor& grad,
                 const Tensors& others) const {
    const Tensor any = zeros({units_.units}, grad.dtype());
    Tensors all{pull_through([&](const Tensors& v) { return reduce_(v[0]); }, {any}, grad)[0]};
    all.insert(all.end(), others.begin(), others.end());
    return linear_call({o, asked}, {}, std::make_shared<const RowUnits>(units_), all);
  }

  LinearCrossEntropyCall c_;
  std::function<Tensor(const Tensor&, const Tensors&)> terms_;
  std::function<Tensor(const Tensor&)> reduce_;
  std::size_t operands_;
  RowUnits units_;
};

}  // namespace

Tensor linear_answer_loss(const Tensor& x, const Tensor& head, const Tensor& target,
                          const LinearLogProbOptions& options, const AnswerLoss& loss) {
  const LinearRows rows = log_prob_rows(x, head, target, options);
  const Answers answers(rows, target.size(0), target.size(1), loss);
  Tensors inputs = rows.o.list();
  inputs.insert(inputs.end(), loss.further.begin(), loss.further.end());
  // Requesting cotangents takes ten to twenty microseconds; so does a product of this size.
  constexpr double kSmall = 1 << 17;
  if (static_cast<double>(target.numel()) * static_cast<double>(head.numel()) < kSmall) return answers.plain(inputs);
  return custom_function(
      [&](const Tensors& in) { return answers.plain(in); },
      [answers](const Tensor& grad, const Tensor&, const Tensors& in) { return answers.gradients(grad, in); }, inputs);
}

}  // namespace ebb
