// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>

#include "ebb/distributed/world.h"
#include "ebb/tensor.h"

// Layers whose parameters are divided among ranks. A layer has a fixed number of *parts*, whoever holds them: a rank
// computes its parts one by one, and sums over parts are a binary tree. So, as with the shards of DataParallel, results
// have the same bits for any number of ranks up to the number of parts. All ranks compute the same loss of the same
// batch.
namespace ebb::distributed {

// This rank's parts, [first, last) of `parts`; 0: as many as there are ranks.
std::pair<int, int> own_parts(int parts, const World& among = world());

// x for each of this rank's parts, [own parts, ...]; the gradient is summed over the parts of all ranks.
Tensor copy_to_parts(const Tensor& x, int parts, const World& among = world());
// The sum over the parts of all ranks of x [own parts, ...]; the gradient goes to each of them.
Tensor sum_over_parts(const Tensor& x, int parts, const World& among = world());

struct ParallelLinearOptions {
  int parts = 0;  // 0: as many as there are ranks
  bool bias = true;
};

// A linear layer divided by its outputs, followed by one divided by its inputs: between them each part is by itself, so
// elementwise functions (and attention heads) need no communication. The pair sums once, forwards and backwards.
//
//   ColumnParallelLinear up(512, 2048);  RowParallelLinear down(2048, 512);
//   Tensor y = down(gelu(up(x)));
struct ColumnParallelLinear {
  int parts;
  World among;
  Tensor weight, bias;  // [own parts, out / parts, in] and [own parts, 1, out / parts]
  ColumnParallelLinear(std::int64_t in, std::int64_t out, const ParallelLinearOptions& options = {},
                       const World& among = world());
  Tensor operator()(const Tensor& x) const;  // [rows, in] -> [own parts, rows, out / parts]
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct RowParallelLinear {
  int parts;
  World among;
  Tensor weight, bias;  // [own parts, out, in / parts] and, on every rank, [out]
  RowParallelLinear(std::int64_t in, std::int64_t out, const ParallelLinearOptions& options = {},
                    const World& among = world());
  Tensor operator()(const Tensor& x) const;  // [own parts, rows, in / parts] -> [rows, out]
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

// The rows of the head that belong to this rank, [first, last) of `vocabulary`.
std::pair<std::int64_t, std::int64_t> own_vocabulary(std::int64_t vocabulary, int parts = 0,
                                                     const World& among = world());

struct VocabularyParallelOptions {
  int parts = 0;  // of the vocabulary; 0: as many as there are ranks
  std::int64_t ignore_index = -100;
  std::int64_t chunk = 1024;  // rows whose logits exist at a time
};

// linear_cross_entropy of an LM head whose rows are divided among ranks: the mean over the rows of x [n, H] that are
// not ignored of log Σ exp(x·headᵀ) − x·head[target]. `head` is this rank's rows (own_vocabulary), targets [n] count
// through the whole vocabulary. Logits exist for `chunk` rows and one part at a time; per row and part three numbers
// are exchanged, and the gradient of x is summed over the parts.
Tensor vocabulary_parallel_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                                         std::int64_t vocabulary, const VocabularyParallelOptions& options = {},
                                         const World& among = world());

}  // namespace ebb::distributed
