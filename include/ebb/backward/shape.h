// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/ops/shape.h"

// Gradient rules of the shape operations. `shape` is the shape of the operation's input.
namespace ebb {

Tensor reshape_backward(const Tensor& grad, const Shape& shape);
Tensor flatten_backward(const Tensor& grad, const Shape& shape);
Tensor squeeze_backward(const Tensor& grad, const Shape& shape);
Tensor unsqueeze_backward(const Tensor& grad, const Shape& shape);
Tensor permute_backward(const Tensor& grad, const Axes& axes);
Tensor transpose_backward(const Tensor& grad, std::int64_t a, std::int64_t b);
Tensor expand_backward(const Tensor& grad, const Shape& shape);
Tensor sum_to_backward(const Tensor& grad, const Shape& shape);

// Element i of grad came from position start + step·i.
Tensor narrow_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t start,
                       std::int64_t step = 1);

Tensor slice_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t start,
                      std::int64_t stop = kEnd, std::int64_t step = 1);
Tensor select_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t index);
Tensor split_backward(const std::vector<Tensor>& grads, std::int64_t axis = 0);
Tensor chunk_backward(const std::vector<Tensor>& grads, std::int64_t axis = 0);

// `sizes` are those of the inputs along the axis.
std::vector<Tensor> cat_backward(const Tensor& grad, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0);

std::vector<Tensor> stack_backward(const Tensor& grad, std::int64_t axis = 0);
Tensor pad_backward(const Tensor& grad, const Shape& shape, const std::vector<std::int64_t>& pad,
                    PadMode mode = PadMode::constant);
Tensor flip_backward(const Tensor& grad, const Axes& axes = {});
Tensor roll_backward(const Tensor& grad, const Axes& shifts, const Axes& axes = {});
Tensor repeat_backward(const Tensor& grad, const Shape& shape, const Sizes& repeats);
Tensor tril_backward(const Tensor& grad, std::int64_t diagonal = 0);
Tensor triu_backward(const Tensor& grad, std::int64_t diagonal = 0);
Tensor diag_backward(const Tensor& grad, const Shape& shape, std::int64_t diagonal = 0);
Tensor diagonal_backward(const Tensor& grad, const Shape& shape, std::int64_t offset = 0, std::int64_t a = 0,
                         std::int64_t b = 1);
Tensor contiguous_backward(const Tensor& grad);

}  // namespace ebb
