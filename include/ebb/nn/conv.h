// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/nn/parameters.h"
#include "ebb/ops/conv.h"

// Convolutions on [batch, channels, height, width] and [batch, channels, length]. Weights and biases are initialised
// uniformly in ±1/√(fan in), as in torch.nn.
namespace ebb::nn {

struct ConvLayerOptions {
  SizePair stride = 1;
  Padding padding = 0;
  SizePair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
};
struct Conv2d {
  Tensor weight;  // [out, in/groups, kernel, kernel]
  Tensor bias;    // [out], or undefined
  ConvOptions options;
  Conv2d(std::int64_t in, std::int64_t out, SizePair kernel, const ConvLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};
struct Conv1d {
  Tensor weight, bias;  // [out, in/groups, kernel]
  ConvOptions options;
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const ConvLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight, bias, options); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct ConvTransposeLayerOptions {
  SizePair stride = 1;
  SizePair padding = 0;
  SizePair output_padding = 0;
  std::int64_t groups = 1;
  SizePair dilation = 1;
  bool bias = true;
  DType dtype = DType::f32;
};
struct ConvTranspose2d {
  Tensor weight, bias;  // [in, out/groups, kernel, kernel], [out]
  ConvTransposeOptions options;
  ConvTranspose2d(std::int64_t in, std::int64_t out, SizePair kernel, const ConvTransposeLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv_transpose2d(x, weight, bias, options); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};
struct ConvTranspose1d {
  Tensor weight, bias;  // [in, out/groups, kernel], [out]
  ConvTransposeOptions options;
  ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t kernel,
                  const ConvTransposeLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv_transpose1d(x, weight, bias, options); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

}  // namespace ebb::nn
