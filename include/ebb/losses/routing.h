// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// Auxiliary losses of the router of a mixture of experts, of its logits [.., E]. Layers are further leading axes.
namespace ebb {

// E·Σ_e f_e·P_e (Switch Transformers): f_e is the share of tokens that have expert e among their top_k, a constant, and
// P_e the mean of its probability. Where all experts are chosen equally often it is top_k.
struct LoadBalancingOptions {
  std::int64_t top_k = 2;
  Tensor mask = {};  // tokens that count, broadcast to [..]; default: all
};
Tensor load_balancing_loss(const Tensor& logits, const LoadBalancingOptions& options = {});
std::vector<Tensor> load_balancing_loss_backward(const Tensor& grad, const Tensor& logits,
                                                 const LoadBalancingOptions& options = {});

// (log Σ_e e^x)² of each token (ST-MoE): keeps the router's logits small.
struct RouterZLossOptions {
  Tensor mask = {};                       // tokens that count, broadcast to [..]; default: all
  Reduction reduction = Reduction::mean;  // mean: over the tokens that count
};
Tensor router_z_loss(const Tensor& logits, const RouterZLossOptions& options = {});
std::vector<Tensor> router_z_loss_backward(const Tensor& grad, const Tensor& logits,
                                           const RouterZLossOptions& options = {});

}  // namespace ebb
