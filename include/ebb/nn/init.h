// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/tensor.h"

// Initial values of weights, drawn from the calling thread's random numbers (torch.nn.init). Shapes are [out, in, ...]:
// what follows the second axis is the kernel of a convolution and counts for both.
namespace ebb::nn {

struct Fans {
  std::int64_t in, out;
};
Fans fans(const Shape& shape);  // at least two dimensions

enum class Fan { in, out };

// He et al., 2015: standard deviation gain/√fan preserves the variance of activations (fan in) or gradients (fan out).
// The gain of relu is √2.
struct KaimingOptions {
  Fan fan = Fan::in;
  double gain = 1.4142135623730951;
  DType dtype = DType::f32;
};
Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options = {});
Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options = {});  // ±gain·√(3/fan)

// Glorot and Bengio, 2010: standard deviation gain·√(2/(in + out)), a compromise between the two.
struct XavierOptions {
  double gain = 1;
  DType dtype = DType::f32;
};
Tensor xavier_normal(const Shape& shape, const XavierOptions& options = {});
Tensor xavier_uniform(const Shape& shape, const XavierOptions& options = {});

Tensor uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::f32);
Tensor normal(const Shape& shape, double mean = 0, double deviation = 1, DType dtype = DType::f32);

// Orthogonal rows (or columns, if there are more rows than columns) of norm gain, with a uniformly random rotation.
// Axes after the first count as columns.
Tensor orthogonal(const Shape& shape, double gain = 1, DType dtype = DType::f32);

// A normal distribution truncated to [low, high].
struct TruncatedNormalOptions {
  double mean = 0;
  double deviation = 1;
  double low = -2;
  double high = 2;
  DType dtype = DType::f32;
};
Tensor truncated_normal(const Shape& shape, const TruncatedNormalOptions& options = {});

}  // namespace ebb::nn
