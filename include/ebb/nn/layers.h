// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "ebb/nn/parameters.h"

// Layers are structs: their tensors can be read and replaced. See ebb/nn/parameters.h for custom models.
namespace ebb::nn {

// x·Wᵀ + b. Weight and bias are initialised uniformly in ±1/√in.
struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
  bool fp8 = false;  // products of factors rounded to eight bits: fp8_linear of ebb/ops/fp8.h
};
struct Linear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined
  bool fp8 = false;
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  Tensor operator()(const Tensor& x) const;  // [..., in] to [..., out]
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_index = {};  // its row is initialised to zero and gets no gradient
  DType dtype = DType::f32;
};
struct Embedding {
  Tensor weight;  // [count, width], normal
  std::optional<std::int64_t> padding_index;
  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {});
  Tensor operator()(const Tensor& index) const;  // [...] to [..., width]
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
  }
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;  // learn a weight (initially ones) and a bias (initially zeros)
  bool bias = true;
  DType dtype = DType::f32;
};
struct LayerNorm {
  Shape normalized_shape;
  double eps;
  Tensor weight, bias;
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::int64_t size, const LayerNormOptions& options = {}) : LayerNorm(Shape{size}, options) {}
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // unset: the machine epsilon of x's dtype
  bool affine = true;
  DType dtype = DType::f32;
};
struct RMSNorm {
  Shape normalized_shape;
  std::optional<double> eps;
  Tensor weight;
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(std::int64_t size, const RMSNormOptions& options = {}) : RMSNorm(Shape{size}, options) {}
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
  }
};

// Drops elements with probability p while training, see set_training().
struct Dropout {
  double p;
  Training training;
  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("training", training);
  }
};

struct Flatten {
  std::int64_t first = 1, last = -1;
  Tensor operator()(const Tensor& x) const;
};

}  // namespace ebb::nn
