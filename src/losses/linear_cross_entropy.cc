// SPDX-License-Identifier: MIT
#include "ebb/losses/linear_cross_entropy.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/describe.h"
#include "losses/linear_rows.h"
#include "losses/one_pass.h"
#include "losses/reduction.h"
#include "ops/build.h"
#include "ops/index_nodes.h"

namespace ebb {

std::vector<Tensor> LinearOperands::list() const {
  std::vector<Tensor> all{x, head, target};
  if (bias.defined()) all.push_back(bias);
  if (weight.defined()) all.push_back(weight);
  return all;
}

LinearOperands LinearOperands::of(const std::vector<Tensor>& list, const LinearCrossEntropyCall& c) {
  LinearOperands o{list[0], list[1], list[2], {}, {}};
  if (c.bias) o.bias = list[3];
  if (c.weight) o.weight = list[3 + c.bias];
  return o;
}

Tensor linear_call(const LinearRows& rows, const Tensor& cotangent, const std::shared_ptr<const RowUnits>& units,
                   const std::vector<Tensor>& further) {
  const LinearOperands& o = rows.o;
  LinearCrossEntropyCall c = rows.c;
  std::vector<Tensor> inputs{contiguous(o.x), contiguous(o.head), o.target};
  c.cotangent = cotangent.defined();
  if (c.cotangent) inputs.push_back(cotangent);
  if (c.bias) inputs.push_back(o.bias);
  if (c.weight) inputs.push_back(o.weight);
  inputs.insert(inputs.end(), further.begin(), further.end());
  std::vector<std::pair<Shape, DType>> outputs{{o.target.shape(), compute_dtype(o.x.dtype())}};
  if (c.input_gradient) outputs.emplace_back(o.x.shape(), o.x.dtype());
  if (c.head_gradient) outputs.emplace_back(o.head.shape(), o.head.dtype());
  if (c.bias_gradient) outputs.emplace_back(o.bias.shape(), o.bias.dtype());
  return make_call(Op::linear_cross_entropy, inputs, with_options(c), std::move(outputs), units);
}

LinearCrossEntropyCall with_gradients(const LinearRows& rows) {
  LinearCrossEntropyCall c = rows.c;
  c.input_gradient = rows.o.x.node()->history != 0;
  c.head_gradient = rows.o.head.node()->history != 0;
  c.bias_gradient = c.bias && rows.o.bias.node()->history != 0;
  return c;
}

Tensor capped(const Tensor& logits, double softcap) {
  return softcap == 0 ? logits : softcap * tanh(logits * (1 / softcap));
}

namespace {

struct PlainParts {
  Tensor kept, safe, weight, row_weight;  // [N, 1]: does the row count, its class (0 where not), w_y, (1−ε)·w_y
  PlainParts(const LinearOperands& o, const LinearCrossEntropyCall& c) {
    const Tensor y = reshape(o.target, {-1, 1});
    kept = y != c.ignore_index;
    safe = where(kept, y, 0);
    const DType dtype = compute_dtype(o.x.dtype());
    weight = c.weight ? reshape(index_select(widen(o.weight), 0, reshape(safe, {-1})), {-1, 1})
                      : full(y.shape(), 1.0, dtype);
    row_weight = weight * (1 - c.label_smoothing);
  }
};

// The rows' losses by ordinary operations: what the kernel computes, with the logits in memory.
Tensor plain_losses(const LinearOperands& o, const LinearCrossEntropyCall& c) {
  const PlainParts p(o, c);
  Tensor z = matmul(widen(o.x), t(widen(o.head)));
  if (c.bias) z = z + widen(o.bias);
  z = capped(z, c.softcap);
  const Tensor lse = logsumexp(z, -1, true);
  Tensor loss = p.row_weight * (lse - gather(z, 1, p.safe));
  if (c.label_smoothing != 0) {
    const Tensor rest = lse - z;
    loss = loss + sum(c.weight ? rest * widen(o.weight) : rest, -1, true) *
                      (c.label_smoothing / static_cast<double>(o.head.shape()[0]));
  }
  if (c.z_loss != 0) loss = loss + p.weight * (c.z_loss * square(lse));
  return reshape(where(p.kept, loss, 0), {-1});
}

// Gradient number `which` (x, head, bias) of Σ g·losses by ordinary operations, for derivatives of the gradient.
Tensor plain_gradient(const LinearOperands& o, const Tensor& g, const LinearCrossEntropyCall& c, int which) {
  const PlainParts p(o, c);
  const Tensor x = widen(o.x), head = widen(o.head);
  Tensor z = matmul(x, t(head));
  if (c.bias) z = z + widen(o.bias);
  z = capped(z, c.softcap);
  const double spread = c.label_smoothing / static_cast<double>(o.head.shape()[0]);
  Tensor a = p.row_weight;
  if (spread != 0) {
    a = a + (c.weight ? spread * sum(widen(o.weight)) : full({}, c.label_smoothing, a.dtype()));
  }
  if (c.z_loss != 0) a = a + p.weight * ((2 * c.z_loss) * logsumexp(z, -1, true));
  Tensor dz = a * softmax(z, -1) - scatter_zero_add(p.row_weight, 1, p.safe, z.shape());
  if (spread != 0) dz = c.weight ? dz - spread * widen(o.weight) : dz - spread;
  dz = where(p.kept, reshape(g, {-1, 1}), 0) * dz;
  if (c.softcap != 0) dz = dz * (1 - square(z * (1 / c.softcap)));
  if (which == 0) return cast(matmul(dz, head), o.x.dtype());
  if (which == 1) return cast(matmul(t(dz), x), o.head.dtype());
  return cast(sum(dz, 0), o.bias.dtype());
}

// The requested gradients of Σ g·losses in one pass of the kernel.
LinearCrossEntropyGradients gradients(const LinearOperands& o, const Tensor& g, LinearCrossEntropyCall c) {
  Tensor call;
  {
    NoHistory off;
    call = linear_call({o, c}, g);
  }
  int next = 1;
  const auto output = [&](bool asked, int which) -> Tensor {
    if (!asked) return {};
    const int k = next++;
    std::vector<Tensor> inputs = o.list();
    inputs.push_back(g);
    return differentiated_as(
        [c, which](const std::vector<Tensor>& at) {
          return plain_gradient(LinearOperands::of(at, c), at.back(), c, which);
        },
        [&](const std::vector<Tensor>&) { return output_of(call, k); }, inputs);
  };
  LinearCrossEntropyGradients out;
  out.x = output(c.input_gradient, 0);
  out.head = output(c.head_gradient, 1);
  out.bias = output(c.bias_gradient, 2);
  return out;
}

LinearRows check_arguments(const char* op, const Tensor& x, const Tensor& head, const Tensor& target,
                           const LinearCrossEntropyOptions& options) {
  require(x.rank() >= 1 && head.rank() == 2 && x.shape()[x.rank() - 1] == head.shape()[1],
          "{}: hidden states of shape {} and a head of shape {} do not fit; give [.., H] and [V, H]", op, x.shape(),
          head.shape());
  require(is_floating(x.dtype()) && is_floating(head.dtype()), Error::Kind::type,
          "{}: hidden states and head must be floating, got {} and {}", op, x.dtype(), head.dtype());
  require(target.shape() == x.shape().without(x.rank() - 1),
          "{}: target of shape {} does not fit hidden states of shape {}; give one class index per row", op,
          target.shape(), x.shape());
  require(target.dtype() == DType::i64 || target.dtype() == DType::i32, Error::Kind::type,
          "{}: target must be class indices, i64 or i32, got {}", op, target.dtype());
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1, "{}: label_smoothing must be in [0, 1], got {}",
          op, options.label_smoothing);
  require(options.softcap >= 0, "{}: softcap must not be negative, got {}", op, options.softcap);
  require(options.reduction != Reduction::batchmean, "{}: reduction must be none, mean or sum", op);
  require(options.chunk >= 0 && options.chunk <= LinearCrossEntropyCall::kMostRows,
          "{}: chunk must be between 0 (chosen) and {} rows, got {}", op, LinearCrossEntropyCall::kMostRows,
          options.chunk);
  for (const auto& [name, vector] : {std::pair{"bias", options.bias}, std::pair{"weight", options.weight}}) {
    require(!vector.defined() || (vector.rank() == 1 && vector.shape()[0] == head.shape()[0]),
            "{}: {} of shape {} does not fit {} classes", op, name, vector.defined() ? vector.shape() : Shape{},
            head.shape()[0]);
    require(!vector.defined() || is_floating(vector.dtype()), Error::Kind::type, "{}: {} must be floating, got {}", op,
            name, vector.defined() ? vector.dtype() : DType::f32);
  }
  const DType dtype = promote(x.dtype(), head.dtype());
  LinearRows out;
  out.o = {reshape(cast(x, dtype), {target.numel(), head.shape()[1]}), cast(head, dtype),
           reshape(cast(target, DType::i64), {target.numel()}), options.bias, options.weight};
  out.c.ignore_index = options.ignore_index;
  out.c.label_smoothing = options.label_smoothing;
  out.c.z_loss = options.z_loss;
  out.c.softcap = options.softcap;
  out.c.chunk = options.chunk;
  out.c.round_logits = options.round_logits;
  out.c.round_sums = options.round_sums;
  out.c.bias = options.bias.defined();
  out.c.weight = options.weight.defined();
  return out;
}

// Weights of the rows, [N]; undefined if there are none.
Tensor flat_token_weights(const char* op, const LinearRows& k, const Tensor& target,
                          const LinearCrossEntropyOptions& options) {
  const Tensor w = token_weights(op, options.token_weight, target.shape(), compute_dtype(k.o.x.dtype()));
  return w.defined() ? reshape(w, {target.numel()}) : w;
}

// Divisor of a mean: Σ w_y over the counted rows, each multiplied by its own weight, if it has one.
Tensor row_weight_total(const LinearRows& k, const Tensor& weights) {
  const Tensor kept = k.o.target != k.c.ignore_index;
  const DType dtype = compute_dtype(k.o.x.dtype());
  if (!k.c.weight) return sum(weights.defined() ? where(kept, weights, 0) : cast(kept, dtype));
  // The kernel reports targets out of range.
  const Tensor valid = logical_and(kept, logical_and(k.o.target >= 0, k.o.target < k.o.head.shape()[0]));
  const Tensor w = index_select(widen(k.o.weight), 0, where(valid, k.o.target, 0));
  return cast(sum(where(valid, weights.defined() ? w * weights : w, 0)), dtype);
}

}  // namespace

Tensor row_losses(const LinearRows& k) {
  // The gradient of class weights uses the plain formula: it has as many terms as there are logits.
  if (k.c.weight && k.o.weight.node()->history != 0) return plain_losses(k.o, k.c);
  return custom_function([&](const std::vector<Tensor>&) { return output_of(linear_call(k), 0); },
                         [c = k.c](const Tensor& grad, const Tensor&, const std::vector<Tensor>& inputs) {
                           const LinearOperands o = LinearOperands::of(inputs, c);
                           const LinearCrossEntropyGradients g = gradients(o, grad, with_gradients({o, c}));
                           std::vector<Tensor> out(inputs.size());
                           out[0] = g.x;
                           out[1] = g.head;
                           if (c.bias) out[3] = g.bias;
                           return out;
                         },
                         k.o.list());
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                            const LinearCrossEntropyOptions& options) {
  if (is_floating(target.dtype()) || head.rank() > 2) return general_linear_cross_entropy(x, head, target, options);
  const LinearRows k = check_arguments("linear_cross_entropy", x, head, target, options);
  const Tensor weights = flat_token_weights("linear_cross_entropy", k, target, options);
  const Tensor rows = weights.defined() ? row_losses(k) * weights : row_losses(k);
  Tensor loss = rows;
  if (options.reduction == Reduction::none) loss = reshape(rows, target.shape());
  if (options.reduction == Reduction::sum) loss = sum(rows);
  if (options.reduction == Reduction::mean) loss = sum(rows) / row_weight_total(k, weights);
  return cast(loss, k.o.x.dtype());
}

LinearCrossEntropyGradients linear_cross_entropy_backward(const Tensor& grad, const Tensor& x, const Tensor& head,
                                                          const Tensor& target,
                                                          const LinearCrossEntropyOptions& options) {
  if (is_floating(target.dtype()) || head.rank() > 2) {
    const auto of = [&](const std::vector<Tensor>& v) {
      LinearCrossEntropyOptions with = options;
      with.bias = v[3];
      return general_linear_cross_entropy(v[0], v[1], v[2], with);
    };
    const auto g = pull_back("linear_cross_entropy", grad, {x, head, target, options.bias}, of);
    return {g[0], g[1], g[3], g[2]};
  }
  LinearRows k = check_arguments("linear_cross_entropy_backward", x, head, target, options);
  const Shape expected = options.reduction == Reduction::none ? target.shape() : Shape{};
  require(grad.shape() == expected, "linear_cross_entropy_backward: gradient of shape {}, the loss has shape {}",
          grad.shape(), expected);
  Tensor g = cast(grad, compute_dtype(k.o.x.dtype()));
  const Tensor weights = flat_token_weights("linear_cross_entropy_backward", k, target, options);
  if (options.reduction == Reduction::mean) g = g / row_weight_total(k, weights);
  g = options.reduction == Reduction::none ? reshape(g, {target.numel()}) : expand(g, {target.numel()});
  if (weights.defined()) g = g * weights;
  k.c.input_gradient = k.c.head_gradient = true;
  k.c.bias_gradient = k.c.bias;
  const LinearCrossEntropyGradients all = gradients(k.o, g, k.c);
  return {cast(reshape(all.x, x.shape()), x.dtype()), cast(all.head, head.dtype()), all.bias, {}};
}

LinearRows log_prob_rows(const Tensor& x, const Tensor& head, const Tensor& target,
                         const LinearLogProbOptions& options) {
  const char* op = "linear_log_probs";
  require(options.temperature > 0, "{}: temperature must be positive, got {}", op, options.temperature);
  LinearCrossEntropyOptions o;
  o.bias = options.bias;
  o.ignore_index = options.ignore_index;
  o.softcap = options.softcap / options.temperature;  // c·tanh(z/c)/τ = c'·tanh((z/τ)/c') with c' = c/τ
  o.reduction = Reduction::none;
  o.chunk = options.chunk;
  Tensor scaled = x;
  if (options.temperature != 1) {  // (x·Wᵀ + b)/τ = (x/τ)·Wᵀ + b/τ: the head is unchanged
    scaled = x * (1 / options.temperature);
    if (o.bias.defined()) o.bias = o.bias * (1 / options.temperature);
  }
  LinearRows rows = check_arguments(op, scaled, head, target, o);
  rows.c.of_log_probs = true;
  return rows;
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, LinearCrossEntropyOptions& o) {
  v("bias", o.bias);
  v("weight", o.weight, HasGradient::no);
  v("ignore_index", o.ignore_index, kIgnored);
  v("label_smoothing", o.label_smoothing, "the share of the target spread over all classes");
  v("z_loss", o.z_loss, "adds z_loss·(log Σ e^x)²");
  v("softcap", o.softcap, kSoftcapped);
  v("token_weight", o.token_weight, HasGradient::no);
  v("reduction", o.reduction);
  v("chunk", o.chunk, "rows whose logits exist at a time; 0: chosen");
  v("round_logits", o.round_logits, "bf16 on a GPU: logits are stored as bf16");
  v("round_sums", o.round_sums, "bf16 on a GPU: the head's gradient is rounded to bf16 after each chunk");
}

std::vector<LossInfo> linear_entries() {
  return {
      describe("linear_cross_entropy", "linear", "cross_entropy(x·headᵀ + bias, y), without the logits",
               {{"x"}, {"head"}, {"target"}}, linear_cross_entropy),
  };
}

}  // namespace ebb
