#pragma once
#include <cstdint>
#include <optional>

#include "ebb/tensor.h"

namespace ebb {

// Statistics are f32 for halves; weight and bias may be left out (Tensor{}) and have normalized_shape, the last sizes
// of x.

// (x − mean) / sqrt(var + eps) · weight + bias, var without correction.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

// x / sqrt(mean(x²) + eps) · weight. eps defaults to the distance from 1 to the next number of x's dtype.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

// x / max(‖x‖_p, eps) along an axis.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t axis = 1, double eps = 1e-12);

}  // namespace ebb
