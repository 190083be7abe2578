// SPDX-License-Identifier: MIT
#include "ebb/nn/layers.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/nn/activations.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& o) : fp8(o.fp8) {
  require(in >= 0 && out >= 0, "Linear: sizes must not be negative, got {} and {}", in, out);
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, in)));
  weight = variable(uniform({out, in}, -bound, bound, o.dtype));
  if (o.bias) bias = variable(uniform({out}, -bound, bound, o.dtype));
}

Tensor Linear::operator()(const Tensor& x) const {
  require(x.rank() >= 1 && x.size(-1) == weight.size(1), "Linear: the last size of the input must be {}, got shape {}",
          weight.size(1), x.shape());
  if (fp8) return fp8_linear(x, weight, bias);
  const Tensor y = matmul(x, t(weight));
  return bias.defined() ? y + bias : y;
}

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& o)
    : padding_index(o.padding_index) {
  Tensor first = randn({count, width}, o.dtype);
  if (padding_index) {
    require(*padding_index >= 0 && *padding_index < count, Error::Kind::index,
            "Embedding: padding_index {} is outside [0, {})", *padding_index, count);
    first = where(unsqueeze(arange(count) == *padding_index, 1), 0.0, first);
  }
  weight = variable(first);
}

Tensor Embedding::operator()(const Tensor& index) const { return embedding(weight, index, padding_index); }

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& o) : normalized_shape(shape), eps(o.eps) {
  if (o.affine) weight = variable(ones(shape, o.dtype));
  if (o.affine && o.bias) bias = variable(zeros(shape, o.dtype));
}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, normalized_shape, weight, bias, eps); }

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& o) : normalized_shape(shape), eps(o.eps) {
  if (o.affine) weight = variable(ones(shape, o.dtype));
}

Tensor RMSNorm::operator()(const Tensor& x) const { return rms_norm(x, normalized_shape, weight, eps); }

Dropout::Dropout(double probability) : p(probability) {
  require(p >= 0 && p <= 1, "Dropout: p must be in [0, 1], got {}", p);
}

Tensor Dropout::operator()(const Tensor& x) const { return p == 0 ? x : dropout(x, p, training.on); }

Tensor Flatten::operator()(const Tensor& x) const { return flatten(x, first, last); }

Prelu::Prelu(std::int64_t channels, double slope, DType dtype) : weight(variable(full({channels}, slope, dtype))) {}

}  // namespace ebb::nn
