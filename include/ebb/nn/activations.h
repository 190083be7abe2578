// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops/activation.h"

// Activations as layers, for Sequential. Elsewhere the functions in ebb/ops/activation.h are simpler.
namespace ebb::nn {

// clang-format off
struct Relu { Tensor operator()(const Tensor& x) const { return relu(x); } };
struct Relu6 { Tensor operator()(const Tensor& x) const { return relu6(x); } };
struct LeakyRelu { double negative_slope = 0.01; Tensor operator()(const Tensor& x) const { return leaky_relu(x, negative_slope); } };
struct Elu { double alpha = 1; Tensor operator()(const Tensor& x) const { return elu(x, alpha); } };
struct Selu { Tensor operator()(const Tensor& x) const { return selu(x); } };
struct Celu { double alpha = 1; Tensor operator()(const Tensor& x) const { return celu(x, alpha); } };
struct Gelu { GeluForm form = GeluForm::exact; Tensor operator()(const Tensor& x) const { return gelu(x, form); } };
struct Silu { Tensor operator()(const Tensor& x) const { return silu(x); } };
struct Mish { Tensor operator()(const Tensor& x) const { return mish(x); } };
struct Sigmoid { Tensor operator()(const Tensor& x) const { return sigmoid(x); } };
struct LogSigmoid { Tensor operator()(const Tensor& x) const { return log_sigmoid(x); } };
struct Tanh { Tensor operator()(const Tensor& x) const { return tanh(x); } };
struct Softplus { double beta = 1; Tensor operator()(const Tensor& x) const { return softplus(x, beta); } };
struct Softsign { Tensor operator()(const Tensor& x) const { return softsign(x); } };
struct Hardtanh { double min_val = -1, max_val = 1; Tensor operator()(const Tensor& x) const { return hardtanh(x, min_val, max_val); } };
struct Hardsigmoid { Tensor operator()(const Tensor& x) const { return hardsigmoid(x); } };
struct Hardswish { Tensor operator()(const Tensor& x) const { return hardswish(x); } };
struct Hardshrink { double lambd = 0.5; Tensor operator()(const Tensor& x) const { return hardshrink(x, lambd); } };
struct Softshrink { double lambd = 0.5; Tensor operator()(const Tensor& x) const { return softshrink(x, lambd); } };
struct Tanhshrink { Tensor operator()(const Tensor& x) const { return tanhshrink(x); } };
struct Threshold { double threshold, value; Tensor operator()(const Tensor& x) const { return ebb::threshold(x, threshold, value); } };
struct Softmax { int axis = -1; Tensor operator()(const Tensor& x) const { return softmax(x, axis); } };
struct LogSoftmax { int axis = -1; Tensor operator()(const Tensor& x) const { return log_softmax(x, axis); } };
struct Glu { int axis = -1; Tensor operator()(const Tensor& x) const { return glu(x, axis); } };
struct Swiglu { int axis = -1; Tensor operator()(const Tensor& x) const { return swiglu(x, axis); } };
struct Geglu { int axis = -1; Tensor operator()(const Tensor& x) const { return geglu(x, axis); } };
struct Reglu { int axis = -1; Tensor operator()(const Tensor& x) const { return reglu(x, axis); } };
// clang-format on

// With a learned slope: one, or one per channel.
struct Prelu {
  Tensor weight;
  explicit Prelu(std::int64_t channels = 1, double slope = 0.25, DType dtype = DType::f32);
  Tensor operator()(const Tensor& x) const { return prelu(x, weight); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
  }
};

}  // namespace ebb::nn
