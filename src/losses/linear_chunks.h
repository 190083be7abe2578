// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "ebb/losses/linear_cross_entropy.h"

// Logits of an LM head, some rows at a time, by ordinary operations: for losses that the linear_cross_entropy kernel
// does not cover.
namespace ebb {

// x, computed after `event`: chunks ordered this way share memory.
Tensor after(const Tensor& x, const Tensor& event);

// z = softcap(s·(x·Wᵀ + b)) / τ of x [n, H] and a head [V, H], in f32 for halves. Factors that are already bf16 give
// f32, without a gradient.
enum class Product { of_bf16, differentiable };
Tensor logits_of(const Tensor& x, const Tensor& head, const Tensor& bias, const TokenStatisticsOptions& options,
                 Product product = Product::of_bf16);

// A head for all chunks: padded with zeros after its last class where products of bf16 want sizes in eights.
struct ChunkHead {
  ChunkHead(const Tensor& x, const Tensor& head);
  std::int64_t classes;
  Tensor weight;

  Tensor logits_of(const Tensor& x, const Tensor& bias, const TokenStatisticsOptions& options) const;
};

// Number of logits in memory at a time.
std::int64_t logits_at_a_time(std::int64_t chunk, std::int64_t classes, Device device);

// The length of nearly equal pieces, none longer than `most`: whole tiles of products if possible.
std::int64_t even_length(std::int64_t all, std::int64_t most);

// The derivative of logits z times t, with respect to x·Wᵀ + b. (The product itself is linear.)
Tensor through_cap(const Tensor& t, const Tensor& z, const TokenStatisticsOptions& options);

// Gradients of x, head and bias from the gradient dz of logits z, in f32 for halves. The head may have rows of zeros
// after its classes.
struct LogitGradients {
  LogitGradients(const Tensor& dz, const Tensor& z, const Tensor& x, const TokenStatisticsOptions& options,
                 const Tensor& head);
  Tensor of_x() const;
  Tensor of_head(const Tensor& x) const;
  Tensor of_head(const Tensor& x, DType dtype) const;  // rounded to it once
  Tensor of_bias() const;

 private:
  Tensor dz_, factor_, head_;
  bool by_bf16_;
};

// Terms that are a formula of logits. Rows come in units (calls/linear_cross_entropy.h): row (s·units + u)·tokens + t
// belongs to unit u, and a unit has one term, which depends on its own logits only.
struct LogitTerms {
  std::int64_t units = 0, sides = 1, tokens = 1;
  TokenStatisticsOptions head;  // scale, softcap, temperature and chunk
  bool has_bias = false;
  std::size_t cut = 0;  // number of further inputs that are [units or sides·units, ..]; the others are passed whole
  // The terms [n] of logits [sides·n·tokens, V] and of the further inputs, sliced alike.
  std::function<Tensor(const Tensor& logits, const std::vector<Tensor>& further)> formula;

  // {terms [units], gradients of Σ cotangent·terms with respect to the requested inputs}, in one pass over chunks of
  // units, one after the other: three products with the head, or one if nothing is requested. Sums over chunks are f32.
  // inputs: x [sides·units·tokens, H], head [V, H], bias [V] if there is one, further ones.
  std::vector<Tensor> pass(const std::vector<Tensor>& inputs, const Tensor& cotangent,
                           const std::vector<bool>& asked) const;

  // The terms with their derivatives: first ones by a pass, second ones by the plain formula.
  Tensor terms(const std::vector<Tensor>& inputs) const;
};

}  // namespace ebb
