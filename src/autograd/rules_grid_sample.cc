// SPDX-License-Identifier: MIT
#include "autograd/rules.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/grid_sample_nodes.h"
#include "ops/index_nodes.h"

// Gradient rules of grid_sample. f(y, x, p) = Σ y·sample(x, p) is linear in y and in x: its derivatives by y, x and the
// points p are the three calls, which include those of the first two calls. The third one's are a formula: with the
// weights w_k of the elements k around a point, h = Σ_a h_a·∂f/∂p_a = Σ y·x[k]·v_k, where v_k = Σ_a h_a·∂w_k/∂p_a.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

const GridSampleCall& grid_call(const RuleContext& c) { return options_as<GridSampleCall>(c.attrs); }

Tensor grid_gradient(const Tensor& y, const Tensor& x, const Tensor& grid, const GridSampleCall& call) {
  if (call.taps == 1) return zeros(grid.shape(), grid.dtype());
  return grid_sample_grid_gradient_node(y, x, grid, call);
}

Cotangents grid_sample_rule(const RuleContext& c) {
  Cotangents out(2);
  const Tensor &x = c.inputs[0], &grid = c.inputs[1];
  if (c.needs[0]) out[0] = grid_sample_image_gradient_node(c.grad, grid, grid_call(c), x.shape());
  if (c.needs[1]) out[1] = grid_gradient(c.grad, x, grid, grid_call(c));
  return out;
}

Cotangents image_gradient_rule(const RuleContext& c) {
  Cotangents out(2);
  const Tensor &y = c.inputs[0], &grid = c.inputs[1];
  if (c.needs[0]) out[0] = grid_sample_node(c.grad, grid, grid_call(c));
  if (c.needs[1]) out[1] = grid_gradient(y, c.grad, grid, grid_call(c));
  return out;
}

Cotangents grid_gradient_rule(const RuleContext& c) {
  const Tensor &y = c.inputs[0], &x = c.inputs[1], &grid = c.inputs[2];
  const GridTaps taps(grid_call(c), x.shape(), widen(grid));
  const int axes = x.rank() - 2;
  // Σ_a h_a·∂/∂p_a of the weights, or of their derivatives along an axis.
  const auto along_h = [&](GridTaps::Orders orders) {
    const Tensor h = widen(c.grad);
    Tensor sum;
    for (int a = 0; a < axes; ++a) {
      GridTaps::Orders further = orders;
      ++further[static_cast<std::size_t>(a)];
      const Tensor w = taps.weight(further);
      if (!w.defined()) continue;
      const Tensor part = narrow(h, 2, axes - 1 - a, 1) * w;
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  };
  std::int64_t plane = 1;
  for (int d = 2; d < x.rank(); ++d) plane *= x.size(d);
  const Tensor rows = reshape(x, {x.size(0), x.size(1), plane});
  Cotangents out(3);
  if (c.needs[0]) out[0] = weighted_gather_node(rows, taps.at(), along_h({}));
  if (c.needs[1]) out[1] = reshape(weighted_scatter_node(y, taps.at(), along_h({}), plane), x.shape());
  if (c.needs[2]) {
    const Tensor dots = gather_dot_node(rows, y, taps.at());
    std::vector<Tensor> along;
    for (int a = axes - 1; a >= 0; --a) {  // a grid has the last axis first
      GridTaps::Orders orders{};
      orders[static_cast<std::size_t>(a)] = 1;
      along.push_back(sum(dots * along_h(orders), {2}, true));
    }
    out[2] = cast(cat(along, 2), grid.dtype());
  }
  return out;
}

constexpr RuleRow kGridSampleRules[] = {
    {Op::grid_sample, grid_sample_rule},
    {Op::grid_sample_image_gradient, image_gradient_rule},
    {Op::grid_sample_grid_gradient, grid_gradient_rule},
};

}  // namespace

std::span<const RuleRow> grid_sample_rules() { return kGridSampleRules; }

}  // namespace ebb
