// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops/pool.h"

// Pooling as layers, for Sequential. Elsewhere the functions in ebb/ops/pool.h are simpler.
namespace ebb::nn {

struct MaxPool2d {
  SizePair window;
  MaxPoolOptions options = {};
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, window, options); }
};
struct MaxPool1d {
  std::int64_t window;
  MaxPoolOptions options = {};
  Tensor operator()(const Tensor& x) const { return max_pool1d(x, window, options); }
};
struct AvgPool2d {
  SizePair window;
  AvgPoolOptions options = {};
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, window, options); }
};
struct AvgPool1d {
  std::int64_t window;
  AvgPoolOptions options = {};
  Tensor operator()(const Tensor& x) const { return avg_pool1d(x, window, options); }
};
struct AdaptiveAvgPool2d {
  SizePair output;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, output); }
};
struct AdaptiveAvgPool1d {
  std::int64_t output;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool1d(x, output); }
};
struct AdaptiveMaxPool2d {
  SizePair output;
  Tensor operator()(const Tensor& x) const { return adaptive_max_pool2d(x, output); }
};
struct AdaptiveMaxPool1d {
  std::int64_t output;
  Tensor operator()(const Tensor& x) const { return adaptive_max_pool1d(x, output); }
};
struct GlobalAvgPool {
  Tensor operator()(const Tensor& x) const { return global_avg_pool(x); }
};
struct GlobalMaxPool {
  Tensor operator()(const Tensor& x) const { return global_max_pool(x); }
};

}  // namespace ebb::nn
