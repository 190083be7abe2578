// SPDX-License-Identifier: MIT
#include "ebb/nn/conv.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/nn/init.h"

namespace ebb::nn {
namespace {

// Weight [rows, columns/groups, kernel...] and a bias of `out` numbers.
template <class Layer, class Options>
void begin(Layer& layer, std::int64_t rows, std::int64_t columns, std::int64_t out, std::vector<std::int64_t> kernel,
           const Options& o) {
  require(o.groups > 0 && rows % o.groups == 0 && columns % o.groups == 0,
          "Conv: {} and {} channels cannot be divided into {} groups", columns, rows, o.groups);
  std::vector<std::int64_t> sizes{rows, columns / o.groups};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  const Shape shape(sizes);
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fans(shape).in)));
  layer.weight = variable(uniform(shape, -bound, bound, o.dtype));
  if (o.bias) layer.bias = variable(uniform({out}, -bound, bound, o.dtype));
}

ConvOptions call_options(const ConvLayerOptions& o) { return {o.stride, o.padding, o.dilation, o.groups}; }
ConvTransposeOptions call_options(const ConvTransposeLayerOptions& o) {
  return {o.stride, o.padding, o.output_padding, o.groups, o.dilation};
}

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, SizePair kernel, const ConvLayerOptions& o)
    : options(call_options(o)) {
  begin(*this, out, in, out, {kernel[0], kernel[1]}, o);
}
Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const ConvLayerOptions& o)
    : options(call_options(o)) {
  begin(*this, out, in, out, {kernel}, o);
}
ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, SizePair kernel, const ConvTransposeLayerOptions& o)
    : options(call_options(o)) {
  begin(*this, in, out, out, {kernel[0], kernel[1]}, o);
}
ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                 const ConvTransposeLayerOptions& o)
    : options(call_options(o)) {
  begin(*this, in, out, out, {kernel}, o);
}

}  // namespace ebb::nn
