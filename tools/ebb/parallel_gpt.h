// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "dataset.h"
#include "ebb/distributed.h"
#include "ebb/nn.h"
#include "run_config.h"

namespace ebb::program {

// A transformer block whose heads and feed-forward network are divided among ranks. Each half sums once over the parts.
struct ParallelBlock {
  std::int64_t heads;  // of one part
  nn::LayerNorm norm1, norm2;
  distributed::ColumnParallelLinear attention, up;  // attention: query, key and value of a part's heads
  distributed::RowParallelLinear projection, down;
  nn::Dropout dropout;  // for values that all ranks have
  explicit ParallelBlock(const RunConfig& config);
  Tensor operator()(const Tensor& x) const;  // [n, T, width]
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1);
    v("attention", attention);
    v("projection", projection);
    v("norm2", norm2);
    v("up", up);
    v("down", down);
    v("dropout", dropout);
  }
};

// Gpt with --tensor-parallel: the same network, with each rank holding its parts. Embeddings and norms are the same on
// all ranks; the rows of the head are divided, and no rank has all logits of a token.
struct ParallelGpt {
  int parts;
  distributed::World among;
  std::int64_t vocabulary;
  nn::Embedding tokens, positions;
  nn::Dropout dropout;
  std::vector<ParallelBlock> blocks;
  nn::LayerNorm norm;
  Tensor head;  // this rank's rows, [own, width]
  ParallelGpt(const RunConfig& config, const DataFacts& facts);
  Tensor operator()(const Tensor& x);
  Tensor loss(const Tensor& inputs, const Tensor& targets);
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("dropout", dropout);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }

  // Calls f(tensor, shape, from) for divided tensors: this rank has the elements from `from` on of a tensor of `shape`.
  void each_divided(const std::function<void(Tensor& own, const Shape& shape, std::int64_t from)>& f);
};

struct Gpt;
// The same network in one piece, from a model held by one process.
Gpt undivided(const ParallelGpt& model, const RunConfig& config, const DataFacts& facts);

// The norm of all gradients together, from the ranks' parts. The bits do not depend on the number of ranks. A
// collective.
Tensor norm_over_parts(ParallelGpt& model, const Gradients& gradients);

}  // namespace ebb::program
