// SPDX-License-Identifier: MIT
#include "losses/linear_chunks.h"

#include <algorithm>

#include "backend/backend.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "losses/linear_rows.h"
#include "losses/one_pass.h"
#include "losses/products.h"
#include "ops/build.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

// The logits of a row have the same bits whatever the other rows, so that a chunk, a batch or a single token of a
// generator give the same log-probabilities: the kind of product must not depend on the number of rows.
bool multiplies_logits_of_bf16(const Tensor& x, std::int64_t classes) {
  constexpr std::int64_t kMany = 1 << 20;
  return rounds_factors(x.dtype(), x.device(), kMany, classes, x.size(1));
}

// Units [first, first + count) of t [sides·units·per, ..].
Tensor units_of(const Tensor& t, std::int64_t units, std::int64_t per, std::int64_t first, std::int64_t count) {
  if (t.rank() == 0) return t;
  Tensors sides;
  for (std::int64_t at = first * per; at < t.size(0); at += units * per) sides.push_back(narrow(t, 0, at, count * per));
  return sides.size() == 1 ? sides[0] : cat(sides, 0);
}

// Reassembles parts of units: the chunks of the first side, then those of the second.
class SidesOfChunks {
 public:
  void add(const Tensor& part, std::int64_t sides) {
    all_.resize(static_cast<std::size_t>(sides));
    const std::int64_t rows = part.size(0) / sides;
    for (std::int64_t s = 0; s < sides; ++s)
      all_[static_cast<std::size_t>(s)].push_back(sides == 1 ? part : narrow(part, 0, s * rows, rows));
  }
  Tensor whole() const {
    Tensors flat;
    for (const Tensors& side : all_) flat.insert(flat.end(), side.begin(), side.end());
    return flat.size() == 1 ? flat[0] : cat(flat, 0);
  }

 private:
  std::vector<Tensors> all_;
};

void add_to(Tensor& total, const Tensor& part) { total = total.defined() ? total + part : part; }

}  // namespace

Tensor after(const Tensor& x, const Tensor& event) { return make_node(Op::depend, x.dtype(), x.shape(), {x, event}); }

namespace {

Tensor finished_logits(Tensor z, const Tensor& bias, const TokenStatisticsOptions& o) {
  if (bias.defined()) z = z + widen(bias);
  if (o.logit_scale != 1) z = z * o.logit_scale;
  z = capped(z, o.softcap);
  return o.temperature == 1 ? z : z * (1 / o.temperature);
}

}  // namespace

Tensor logits_of(const Tensor& x, const Tensor& head, const Tensor& bias, const TokenStatisticsOptions& o,
                 Product product) {
  const bool by_bf16 = product == Product::of_bf16 && multiplies_logits_of_bf16(x, head.size(0));
  return finished_logits(by_bf16 ? product_of_bf16(x, t(head)) : matmul(widen(x), t(widen(head))), bias, o);
}

ChunkHead::ChunkHead(const Tensor& x, const Tensor& head) : classes(head.size(0)), weight(head) {
  constexpr std::int64_t kEight = 8, kWorthIt = 256;  // as products on a GPU are padded, see docs/gpu.md
  if (head.device() != Device{} && classes >= kWorthIt && multiplies_logits_of_bf16(x, classes))
    weight = pad_zero(head, 0, 0, (kEight - classes % kEight) % kEight);
}
Tensor ChunkHead::logits_of(const Tensor& x, const Tensor& bias, const TokenStatisticsOptions& o) const {
  if (weight.size(0) == classes) return ebb::logits_of(x, weight, bias, o);
  return finished_logits(narrow(product_of_bf16(x, t(weight)), 1, 0, classes), bias, o);
}

// 16 MiB of f32 on the CPU and almost 1 GiB on a GPU, but enough rows for efficient products. Values of that size are
// not cut into strips again (schedule/strip_model.h).
std::int64_t logits_at_a_time(std::int64_t chunk, std::int64_t classes, Device device) {
  if (chunk > 0) return chunk * classes;
  return std::max<std::int64_t>(256 * classes, (std::int64_t{1} << (device == Device{} ? 22 : 28)) - 1);
}

std::int64_t even_length(std::int64_t all, std::int64_t most) {
  constexpr std::int64_t kTile = 128;  // rows and columns that a GPU multiplies at a time, or twice as many
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  most = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(all, 1));
  const std::int64_t each = divided(std::max<std::int64_t>(all, 1), divided(std::max<std::int64_t>(all, 1), most));
  const std::int64_t tiles = divided(each, kTile) * kTile;
  return tiles <= most ? tiles : each;
}

//   z = c·tanh(s·y/c)/τ:   dz/dy = (1 − (z·τ/c)²)·s/τ
Tensor through_cap(const Tensor& t, const Tensor& z, const TokenStatisticsOptions& o) {
  const Tensor capped = o.softcap == 0 ? t : t * (1 - square(z * (o.temperature / o.softcap)));
  return o.logit_scale == o.temperature ? capped : capped * (o.logit_scale / o.temperature);
}

LogitGradients::LogitGradients(const Tensor& dz, const Tensor& z, const Tensor& x, const TokenStatisticsOptions& o,
                               const Tensor& head)
    : dz_(through_cap(dz, z, o)),
      head_(head),
      by_bf16_(rounds_factors(x.dtype(), x.device(), x.size(0), dz.size(1), x.size(1))) {
  factor_ = by_bf16_ ? pad_zero(cast(dz_, DType::bf16), 1, 0, head.size(0) - dz.size(1)) : dz_;
}
Tensor LogitGradients::of_x() const {
  if (by_bf16_) return product_of_bf16(factor_, head_);
  return matmul(factor_, widen(narrow_node(head_, 0, 0, dz_.size(1), 1)));
}
Tensor LogitGradients::of_head(const Tensor& x) const {
  if (by_bf16_) return product_of_bf16(t(narrow_node(factor_, 1, 0, dz_.size(1), 1)), x);
  return matmul(t(factor_), widen(x));
}
Tensor LogitGradients::of_head(const Tensor& x, DType dtype) const {
  if (!by_bf16_ || dtype != DType::bf16) return cast(of_head(x), dtype);
  return make_node(Op::matmul, dtype, Shape{dz_.size(1), x.size(1)},
                   {t(narrow_node(factor_, 1, 0, dz_.size(1), 1)), x});
}
Tensor LogitGradients::of_bias() const { return sum(dz_, 0); }

Tensors LogitTerms::pass(const Tensors& in, const Tensor& cotangent, const std::vector<bool>& asked) const {
  const std::size_t operands = has_bias ? 3 : 2;
  const ChunkHead weight(in[0], in[1]);
  const std::int64_t classes = weight.classes, rows_of_unit = sides * tokens;
  const std::int64_t rows = logits_at_a_time(head.chunk, classes, in[0].device()) / std::max<std::int64_t>(classes, 1);
  const std::int64_t step = std::max<std::int64_t>(1, rows / std::max<std::int64_t>(rows_of_unit, 1));
  Tensors terms, totals(in.size());
  std::vector<SidesOfChunks> parts(in.size());
  Tensor event;
  // Computes a result of this chunk before the next chunk begins.
  const auto done = [&](const Tensor& x) {
    const Tensor ordered = event.defined() ? after(x, event) : x;
    event = ordered;
    return ordered;
  };
  for (std::int64_t first = 0; first < units; first += step) {
    const std::int64_t count = std::min(step, units - first);
    Tensor x = units_of(in[0], units, tokens, first, count);
    if (event.defined()) x = after(x, event);
    const Tensor z = weight.logits_of(x, has_bias ? in[2] : Tensor{}, head);
    Tensors arguments{z};
    for (std::size_t k = operands; k < in.size(); ++k)
      arguments.push_back(k < operands + cut ? units_of(in[k], units, 1, first, count) : in[k]);
    Tensor found;
    const auto formula_of = [&](const Tensors& v) {
      found = formula(v[0], Tensors(v.begin() + 1, v.end()));
      return found;
    };
    if (!cotangent.defined()) {
      terms.push_back(done(formula_of(arguments)));
      continue;
    }
    Tensors grads = pull_through(formula_of, arguments, narrow(cotangent, 0, first, count));
    terms.push_back(done(found));
    const LogitGradients of(grads[0].defined() ? grads[0] : zeros_like(z), z, x, head, weight.weight);
    if (asked[0]) parts[0].add(done(cast(of.of_x(), in[0].dtype())), sides);
    if (asked[1]) add_to(totals[1], of.of_head(x)), totals[1] = done(totals[1]);
    if (has_bias && asked[2]) add_to(totals[2], of.of_bias()), totals[2] = done(totals[2]);
    for (std::size_t k = operands; k < in.size(); ++k) {
      if (!asked[k]) continue;
      const Tensor& argument = arguments[k - operands + 1];
      const Tensor grad = grads[k - operands + 1].defined() ? grads[k - operands + 1] : zeros_like(argument);
      if (k < operands + cut && argument.rank() > 0) {
        parts[k].add(done(grad), in[k].size(0) / units);
      } else {
        add_to(totals[k], widen(grad));
        totals[k] = done(totals[k]);
      }
    }
  }
  const DType wide = compute_dtype(in[0].dtype());
  Tensors out{terms.empty() ? zeros({0}, wide) : cat(terms, 0)};
  for (std::size_t k = 0; k < in.size(); ++k) {
    if (!cotangent.defined() || !asked[k]) {
      out.emplace_back();
    } else if (terms.empty()) {
      out.push_back(zeros_like(in[k]));
    } else {
      out.push_back(cast(totals[k].defined() ? totals[k] : parts[k].whole(), in[k].dtype()));
    }
  }
  return out;
}

Tensor LogitTerms::terms(const Tensors& inputs) const {
  const auto plain = [self = *this](const Tensors& v) {
    const Tensor z = logits_of(v[0], v[1], self.has_bias ? v[2] : Tensor{}, self.head, Product::differentiable);
    return self.formula(z, Tensors(v.begin() + (self.has_bias ? 3 : 2), v.end()));
  };
  return custom_function([&](const Tensors& in) { return pass(in, {}, {})[0]; },
                         [self = *this, plain](const Tensor& grad, const Tensor&, const Tensors& in) {
                           std::vector<bool> asked;
                           for (const Tensor& t : in) asked.push_back(t.node()->history != 0 && is_floating(t.dtype()));
                           Tensors found;
                           {
                             NoHistory off;
                             found = self.pass(in, grad, asked);
                           }
                           found.erase(found.begin());
                           return differentiated_cotangents(plain, std::move(found), in, grad);
                         },
                         inputs);
}

}  // namespace ebb
