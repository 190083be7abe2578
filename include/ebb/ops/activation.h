// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "ebb/ops/elementwise.h"

// Activations. Each is one operation with its own gradient rule (ebb/backward/activation.h); names and defaults are
// those of torch.nn.functional. f16 and bf16 are computed in f32 and rounded once; integers are converted to f32.
namespace ebb {

// ---- sigmoid and its logarithms: exact for every finite x -----------------------------------------------------------

Tensor sigmoid(const Tensor& x);                    // 1 / (1 + e^−x)
Tensor log_sigmoid(const Tensor& x);                // −softplus(−x)
Tensor softplus(const Tensor& x, double beta = 1);  // log(1 + e^(beta·x)) / beta; needs no threshold
Tensor logit(const Tensor& x,
             std::optional<double> eps = {});  // log(x / (1 − x)), x clamped to [eps, 1 − eps] if given

// ---- piecewise linear -----------------------------------------------------------------------------------------------

Tensor relu(const Tensor& x);  // integers stay integers; gradient 0 at 0
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor prelu(const Tensor& x, const Tensor& weight);  // weight: one slope, or one per channel (axis 1)
Tensor relu6(const Tensor& x);                        // min(max(x, 0), 6)
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
Tensor hardsigmoid(const Tensor& x);                                // min(max(x/6 + 1/2, 0), 1)
Tensor hardswish(const Tensor& x);                                  // x·hardsigmoid(x)
Tensor hardshrink(const Tensor& x, double lambd = 0.5);             // 0 where |x| <= lambd
Tensor softshrink(const Tensor& x, double lambd = 0.5);             // sign(x)·max(|x| − lambd, 0)
Tensor threshold(const Tensor& x, double threshold, double value);  // x where x > threshold, value elsewhere

// ---- smooth ---------------------------------------------------------------------------------------------------------

Tensor elu(const Tensor& x, double alpha = 1);   // x > 0: x, else alpha·(e^x − 1)
Tensor selu(const Tensor& x);                    // 1.0507·elu(x, 1.6733)
Tensor celu(const Tensor& x, double alpha = 1);  // x > 0: x, else alpha·(e^(x/alpha) − 1)
enum class GeluForm { exact, tanh };
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);  // x·Φ(x)
Tensor silu(const Tensor& x);                                   // x·sigmoid(x)
Tensor mish(const Tensor& x);                                   // x·tanh(softplus(x))
Tensor softsign(const Tensor& x);                               // x / (1 + |x|)
Tensor tanhshrink(const Tensor& x);                             // x − tanh x

// ---- over an axis ---------------------------------------------------------------------------------------------------

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

struct GumbelOptions {
  double tau = 1;
  bool hard = false;  // one-hot samples, with the gradient of the soft ones
  int axis = -1;
};
Tensor gumbel_softmax(const Tensor& logits, const GumbelOptions& options = {});

// Gated units: the axis is split into halves a and b.
Tensor glu(const Tensor& x, int axis = -1);     // a·sigmoid(b)
Tensor swiglu(const Tensor& x, int axis = -1);  // a·silu(b)
Tensor geglu(const Tensor& x, int axis = -1);   // a·gelu(b)
Tensor reglu(const Tensor& x, int axis = -1);   // a·relu(b)

// Each element is dropped with probability p, the others are scaled by 1/(1 − p). The mask is a function of the seed
// and the number of this random operation.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace ebb
