// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"
#include "losses/reduction.h"

// Shared by the losses of one class among C.
namespace ebb {

// The axis of the classes: the only axis of [C], axis 1 of [N, C, ...].
int class_axis(const char* op, const Tensor& input);

// Checks shape and dtype of class indices for an input.
void require_class_indices(const char* op, const Tensor& input, int axis, const Tensor& target);
// Checks that a weight has one number per class.
void require_class_weight(const char* op, const char* name, const Tensor& weight, std::int64_t classes);
// Reshapes a vector of one number per class so that it broadcasts with the input.
Tensor along_classes(const Tensor& weight, const Tensor& input, int axis);

// Class indices that can be picked with. All members have size 1 in place of the classes.
struct Targets {
  Tensor index;   // i64; 0 where ignored
  Tensor keep;    // bool: not ignored
  Tensor weight;  // of the target's class, 1 without weights; 0 where ignored
  Tensor total;   // Σ weight, rank 0
};
Targets prepare_targets(const Tensor& target, int axis, std::int64_t classes, std::int64_t ignore_index,
                        const Tensor& class_weight, DType dtype);

// Weights of the rows, constants for differentiation, in the shape of the losses; undefined if there are none.
Tensor token_weights(const char* op, const Tensor& given, const Shape& losses, DType dtype);

// A log-softmax in parts, so that a loss and its gradient share one exponential per element.
struct LogSoftmax {
  Tensor z;      // x − m, m = max x
  Tensor log_s;  // logp = z − log_s
  Tensor lse;    // log Σ e^x
};
LogSoftmax log_softmax_parts(const Tensor& x, int axis);

// x at index along the axis, which stays with size 1; an index out of range is an Error that begins with `label`.
Tensor pick_class(const Tensor& x, int axis, const Tensor& index, const char* label);
// The same as a separate call: for a loss that reads nothing else of x.
Tensor gather_class(const Tensor& x, int axis, const Tensor& index, const char* label);

}  // namespace ebb
