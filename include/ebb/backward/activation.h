// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "ebb/backward/elementwise.h"
#include "ebb/ops/activation.h"

// The gradient rules of ebb/ops/activation.h; see ebb/backward/elementwise.h. Parameters are those of the operation.
namespace ebb {

Tensor sigmoid_backward(const Tensor& grad, const Tensor& y);
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& x);
Tensor softplus_backward(const Tensor& grad, const Tensor& x, TensorOrScalar beta = 1.0);
// 0 outside [eps, 1 − eps]; without eps NaN outside [0, 1].
Tensor logit_backward(const Tensor& grad, const Tensor& x, TensorOrScalar eps = {});

Tensor relu_backward(const Tensor& grad, const Tensor& x);  // 0 at 0
Tensor leaky_relu_backward(const Tensor& grad, const Tensor& x,
                           TensorOrScalar negative_slope = 0.01);  // the slope at 0
TensorPair prelu_backward(const Tensor& grad, const Tensor& x, const Tensor& weight);
Tensor relu6_backward(const Tensor& grad, const Tensor& x);  // 0 at 0 and 6
Tensor hardtanh_backward(const Tensor& grad, const Tensor& x, TensorOrScalar min_val = -1.0,
                         TensorOrScalar max_val = 1.0);  // 0 at both ends
Tensor hardsigmoid_backward(const Tensor& grad, const Tensor& x);
Tensor hardswish_backward(const Tensor& grad, const Tensor& x);
Tensor hardshrink_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lambd = 0.5);
Tensor softshrink_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lambd = 0.5);
Tensor threshold_backward(const Tensor& grad, const Tensor& x, TensorOrScalar threshold);

Tensor elu_backward(const Tensor& grad, const Tensor& x, TensorOrScalar alpha = 1.0);
Tensor selu_backward(const Tensor& grad, const Tensor& x);
Tensor celu_backward(const Tensor& grad, const Tensor& x, TensorOrScalar alpha = 1.0);
Tensor gelu_backward(const Tensor& grad, const Tensor& x, GeluForm form = GeluForm::exact);
Tensor silu_backward(const Tensor& grad, const Tensor& x);
Tensor mish_backward(const Tensor& grad, const Tensor& x);
Tensor softsign_backward(const Tensor& grad, const Tensor& x);
Tensor tanhshrink_backward(const Tensor& grad, const Tensor& x);

Tensor softmax_backward(const Tensor& grad, const Tensor& y, int axis = -1);
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y, int axis = -1);
Tensor gumbel_softmax_backward(const Tensor& grad, const Tensor& y,
                               const GumbelOptions& options = {});  // y: the soft sample

Tensor glu_backward(const Tensor& grad, const Tensor& x, int axis = -1);
Tensor swiglu_backward(const Tensor& grad, const Tensor& x, int axis = -1);
Tensor geglu_backward(const Tensor& grad, const Tensor& x, int axis = -1);
Tensor reglu_backward(const Tensor& grad, const Tensor& x, int axis = -1);

Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double p);  // mask: true where the element was kept

}  // namespace ebb
