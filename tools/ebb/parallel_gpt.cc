// SPDX-License-Identifier: MIT
#include "parallel_gpt.h"

#include <algorithm>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "models.h"

namespace ebb::program {
namespace {

using distributed::ParallelLinearOptions;

ParallelLinearOptions divided(const RunConfig& c) { return {.parts = static_cast<int>(c.tensor_parallel)}; }

// [own parts, n·T, k·heads·d] to k tensors [own parts · n, heads, T, d].
std::vector<Tensor> heads_apart(const Tensor& x, std::int64_t k, std::int64_t heads, std::int64_t n,
                                std::int64_t time) {
  const std::int64_t own = x.size(0), d = x.size(2) / (k * heads);
  const Tensor split = permute(reshape(x, {own * n, time, k, heads, d}), {2, 0, 3, 1, 4});
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < k; ++i) all.push_back(select(split, 0, i));
  return all;
}

// The plain layers have [out, in]: a part has rows of a column-parallel layer, and columns of a row-parallel
// one.
Tensor rows_joined(const Tensor& parts) { return variable(reshape(parts, {parts.size(0) * parts.size(1), -1}).eval()); }
Tensor columns_joined(const Tensor& parts) {
  return variable(contiguous(reshape(permute(parts, {1, 0, 2}), {parts.size(1), -1})).eval());
}
// From query, key and value of each part to all queries, all keys, all values.
Tensor thirds_joined(const Tensor& parts, bool bias) {
  const std::int64_t own = parts.size(0), rows = parts.numel() / own / (bias ? 1 : parts.size(2)) / 3;
  const Tensor split = permute(reshape(parts, {own, 3, rows, -1}), {1, 0, 2, 3});
  return variable(contiguous(bias ? reshape(split, {-1}) : reshape(split, {3 * own * rows, -1})).eval());
}

}  // namespace

ParallelBlock::ParallelBlock(const RunConfig& c)
    : heads(c.heads / c.tensor_parallel),
      norm1(c.width),
      norm2(c.width),
      attention(c.width, 3 * c.width, divided(c)),
      up(c.width, 4 * c.width, divided(c)),
      projection(c.width, c.width, divided(c)),
      down(4 * c.width, c.width, divided(c)),
      dropout(c.dropout) {}

Tensor ParallelBlock::operator()(const Tensor& x) const {
  const std::int64_t n = x.size(0), time = x.size(1), width = x.size(2);
  const auto rows = [&](const Tensor& t) { return reshape(t, {n * time, width}); };
  const std::vector<Tensor> qkv = heads_apart(attention(rows(norm1(x))), 3, heads, n, time);
  const Tensor mixed = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.causal = true});
  const std::int64_t own = mixed.size(0) / n;
  const Tensor together = reshape(permute(mixed, {0, 2, 1, 3}), {own, n * time, heads * mixed.size(3)});
  const Tensor h = x + dropout(reshape(projection(together), x.shape()));
  return h + dropout(reshape(down(gelu(up(rows(norm2(h))))), x.shape()));
}

ParallelGpt::ParallelGpt(const RunConfig& c, const DataFacts& facts)
    : parts(static_cast<int>(c.tensor_parallel)),
      among(distributed::world()),
      vocabulary(facts.vocabulary.tokens()),
      tokens(vocabulary, c.width),
      positions(c.context, c.width),
      dropout(c.dropout),
      norm(c.width) {
  for (Tensor* t : {&tokens.weight, &positions.weight}) *t = variable(nn::normal(t->shape(), 0, 0.02));
  const auto [from, to] = distributed::own_vocabulary(vocabulary, parts, among);
  head = variable(contiguous(narrow(nn::normal({vocabulary, c.width}, 0, 0.02), 0, from, to - from)).eval());
  for (std::int64_t k = 0; k < c.layers; ++k) blocks.emplace_back(c);
}

Tensor ParallelGpt::operator()(const Tensor& x) {
  Tensor h = dropout(tokens(x) + positions(arange(x.size(1))));
  for (ParallelBlock& block : blocks) h = block(h);
  return reshape(norm(h), {-1, head.size(1)});
}

Tensor ParallelGpt::loss(const Tensor& inputs, const Tensor& targets) {
  return distributed::vocabulary_parallel_cross_entropy((*this)(inputs), head, reshape(targets, {-1}), vocabulary,
                                                        {.parts = parts}, among);
}

void ParallelGpt::each_divided(const std::function<void(Tensor&, const Shape&, std::int64_t)>& f) {
  const std::int64_t first = distributed::own_parts(parts, among).first;
  const auto by_parts = [&](Tensor& t) { f(t, t.shape().with(0, parts), first * t.numel() / t.size(0)); };
  for (ParallelBlock& b : blocks) {
    for (auto* layer : {&b.attention, &b.up}) by_parts(layer->weight), by_parts(layer->bias);
    for (auto* layer : {&b.projection, &b.down}) by_parts(layer->weight);
  }
  f(head, head.shape().with(0, vocabulary), distributed::own_vocabulary(vocabulary, parts, among).first * head.size(1));
}

Gpt undivided(const ParallelGpt& m, const RunConfig& c, const DataFacts& facts) {
  require(m.among.size() == 1, "a model that is divided among {} ranks cannot be put together", m.among.size());
  Gpt plain(c, facts);
  plain.tokens = m.tokens;
  plain.positions = m.positions;
  plain.norm = m.norm;
  plain.head.weight = m.head;
  for (std::size_t k = 0; k < m.blocks.size(); ++k) {
    const ParallelBlock& from = m.blocks[k];
    nn::TransformerBlock& to = plain.blocks[k];
    to.norm1 = from.norm1;
    to.norm2 = from.norm2;
    to.self_attn.in_proj_weight = thirds_joined(from.attention.weight, false);
    to.self_attn.in_proj_bias = thirds_joined(from.attention.bias, true);
    to.self_attn.out_proj.weight = columns_joined(from.projection.weight);
    to.self_attn.out_proj.bias = from.projection.bias;
    to.linear1.weight = rows_joined(from.up.weight);
    to.linear1.bias = variable(reshape(from.up.bias, {-1}).eval());
    to.linear2.weight = columns_joined(from.down.weight);
    to.linear2.bias = from.down.bias;
  }
  return plain;
}

Tensor norm_over_parts(ParallelGpt& model, const Gradients& gradients) {
  std::vector<Tensor> squares;  // of each divided tensor, [own parts]
  std::vector<const Node*> divided;
  const auto [first, last] = distributed::own_parts(model.parts, model.among);
  const std::int64_t own = last - first;
  model.each_divided([&](Tensor& t, const Shape&, std::int64_t) {
    divided.push_back(t.node());
    const Tensor g = gradients[t];
    if (&t != &model.head) {
      squares.push_back(sum(square(reshape(g, {own, -1})), 1));
      return;
    }
    std::vector<Tensor> of_parts;  // which may differ by a row
    for (std::int64_t p = first; p < last; ++p) {
      const auto row = [&](std::int64_t part) { return model.vocabulary * part / model.parts; };
      of_parts.push_back(sum(square(narrow(g, 0, row(p) - row(first), row(p + 1) - row(p)))));
    }
    squares.push_back(stack(of_parts));
  });
  std::vector<std::pair<Tensor, Tensor>> alike;
  for (const auto& [v, g] : gradients.all()) {
    if (std::find(divided.begin(), divided.end(), v.node()) == divided.end()) alike.emplace_back(v, g);
  }
  const Tensor of_parts = distributed::sum_over_parts(stack(squares, 1), model.parts, model.among);
  return sqrt(sum(of_parts) + square(global_norm(Gradients(std::move(alike)))));
}

}  // namespace ebb::program
