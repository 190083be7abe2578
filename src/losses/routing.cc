// SPDX-License-Identifier: MIT
#include "ebb/losses/routing.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/describe.h"
#include "losses/reduction.h"
#include "ops/index_nodes.h"

namespace ebb {
namespace {

// The counted tokens, 1 or 0 each, [N, 1]; undefined if all are.
Tensor counted(const char* op, const Tensor& mask, const Tensor& logits, DType dtype) {
  if (!mask.defined()) return {};
  const Shape tokens = logits.shape().without(logits.rank() - 1);
  return reshape(cast(broadcast_weight(op, "mask", mask != 0, tokens), dtype), {-1, 1});
}

void require_experts(const char* op, const Tensor& logits) {
  require(logits.defined() && logits.rank() >= 1 && logits.size(-1) > 0,
          "{}: needs the router's logits [.., E], got shape {}", op, logits.defined() ? logits.shape() : Shape{});
}

}  // namespace

// Fedus et al., 2021, equations 4 to 6.    E·Σ_e f_e·P_e
Tensor load_balancing_loss(const Tensor& logits, const LoadBalancingOptions& o) {
  const char* op = "load_balancing_loss";
  require_experts(op, logits);
  const std::int64_t experts = logits.size(-1);
  require(o.top_k >= 1 && o.top_k <= experts, "{}: top_k must be between 1 and the {} experts, got {}", op, experts,
          o.top_k);
  const Precision p(op, {logits});
  const Tensor x = reshape(p.wide(logits), {-1, experts}), kept = counted(op, o.mask, logits, p.compute());
  const Tensor chosen = topk(stop_gradient(x), o.top_k).second;
  const Tensor one = kept.defined() ? kept : full({x.size(0), 1}, 1.0, p.compute());
  const Tensor uses = scatter_zero_add(expand(one, chosen.shape()), 1, chosen, x.shape());  // 1 where it is chosen
  const Tensor total = sum(one), probabilities = softmax(x, -1);
  const Tensor f = sum(uses, 0) / total, mean_probability = sum(probabilities * one, 0) / total;
  return p.rounded(static_cast<double>(experts) * sum(f * mean_probability));
}
std::vector<Tensor> load_balancing_loss_backward(const Tensor& grad, const Tensor& logits,
                                                 const LoadBalancingOptions& o) {
  return pull_back("load_balancing_loss", grad, {logits},
                   [&o](const std::vector<Tensor>& v) { return load_balancing_loss(v[0], o); });
}

// Zoph et al., 2022, equation 5.    (log Σ_e e^x)²
Tensor router_z_loss(const Tensor& logits, const RouterZLossOptions& o) {
  const char* op = "router_z_loss";
  require_experts(op, logits);
  const Precision p(op, {logits});
  const Tensor terms = square(logsumexp(p.wide(logits), -1));
  const Tensor kept = counted(op, o.mask, logits, p.compute());
  if (!kept.defined()) return p.rounded(reduce(op, terms, o.reduction));
  const Tensor counts = reshape(kept, terms.shape());
  return p.rounded(reduce_weighted(op, where(counts != 0, terms, 0), sum(counts), o.reduction));
}
std::vector<Tensor> router_z_loss_backward(const Tensor& grad, const Tensor& logits, const RouterZLossOptions& o) {
  return pull_back("router_z_loss", grad, {logits},
                   [&o](const std::vector<Tensor>& v) { return router_z_loss(v[0], o); });
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, LoadBalancingOptions& o) {
  v("top_k", o.top_k, "experts of each token");
  v("mask", o.mask, HasGradient::no);
}

template <class V>
void each_option(V& v, RouterZLossOptions& o) {
  v("mask", o.mask, HasGradient::no);
  v("reduction", o.reduction);
}

std::vector<LossInfo> routing_entries() {
  return {
      describe("load_balancing_loss", "routing",
               "E·Σ_e f_e·P_e;  f_e the share of tokens with e among their top_k, P_e its mean probability",
               {{"logits"}}, load_balancing_loss),
      describe("router_z_loss", "routing", "(log Σ_e e^x)²", {{"logits"}}, router_z_loss),
  };
}

}  // namespace ebb
