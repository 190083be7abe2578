// SPDX-License-Identifier: MIT
#include "autograd/rules.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/history.h"
#include "ops/distance_nodes.h"

// Gradient rules of cdist and pdist. With the differences D_ijk = a_ik − b_jk, cotangents g and distances d, the
// gradient of a is Σ_j g_ij·D_ijk/d_ij for p = 2 and Σ_j g_ij·sign D_ijk for p = 1.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

const DistanceCall& distance_call(const RuleContext& c) { return options_as<DistanceCall>(c.attrs); }

Cotangents distances_rule(const RuleContext& c) {
  const DistanceCall& call = distance_call(c);
  if (call.pairs) return {distances_gradient_node(c.grad, c.output, {c.inputs[0]}, call)};
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  Cotangents out(2);
  if (c.needs[0]) out[0] = distances_gradient_node(c.grad, c.output, {a, b}, call);
  if (c.needs[1]) out[1] = distances_gradient_node(transpose(c.grad, 1, 2), transpose(c.output, 1, 2), {b, a}, call);
  return out;
}

// The gradient of a by ordinary operations, from which its own derivatives follow. x = g, d, a, b.
Tensor distance_gradient(const std::vector<Tensor>& x, const DistanceCall& call) {
  const Tensor &g = x[0], &d = x[1], &a = x[2];
  const Tensor apart = d > 0;
  const Tensor w = call.p == 2 ? where(apart, g / where(apart, d, 1), 0) : g;
  const auto pull = [&](const Tensor& differences) { return call.p == 2 ? differences : sign(differences); };
  if (!call.pairs) return sum(unsqueeze(w, 3) * pull(unsqueeze(a, 2) - unsqueeze(x[3], 1)), 2);
  const auto [first, second] = index_of_pairs(a.size(0));
  const Tensor each = unsqueeze(w, 1) * pull(index_select(a, 0, first) - index_select(a, 0, second));
  return index_add(index_add(zeros_like(a), 0, first, each), 0, second, -each);
}

Cotangents gradient_rule(const RuleContext& c) {
  WithHistory on;
  return grad(FunctionOfMany([&](const std::vector<Tensor>& at) {
    return sum(distance_gradient(at, distance_call(c)) * c.grad);
  }))(std::vector<Tensor>(c.inputs.begin(), c.inputs.end()));
}

constexpr RuleRow kDistancesRules[] = {
    {Op::distances, distances_rule},
    {Op::distances_gradient, gradient_rule},
};

}  // namespace

std::span<const RuleRow> distance_rules() { return kDistancesRules; }

}  // namespace ebb
