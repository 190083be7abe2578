// SPDX-License-Identifier: MIT
#include "autograd/batch.h"
#include "autograd/level.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/history.h"
#include "graph/lock.h"

namespace ebb {
namespace {

void require_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), Error::Kind::type,
          "{}: a tensor of {} cannot be differentiated; cast it to a floating dtype first", op, name(x.dtype()));
}

Tensor seed(const char* op, const Tensor& y, const Tensor& given) {
  require_floating(op, y);
  if (given.defined()) {
    require(given.shape() == y.shape(), "{}: the cotangent has shape {}, the output {}", op, given.shape(), y.shape());
    return cast(given, y.dtype());
  }
  require(y.numel() == 1, "{}: the output has shape {}; a gradient needs one element (or give a cotangent)", op,
          y.shape());
  return ones_like(y);
}

}  // namespace

Tensor variable(const Tensor& value) {
  require_floating("variable", value);
  // Values that belong to no device may have been evaluated on another device than the variable's.
  const bool elsewhere = value.evaluated() && value.node()->device != value.device();
  const Tensor x = elsewhere ? value.to(value.device()) : value;
  Tensor t = make_node(Op::variable, x.dtype(), x.shape(), {x});
  t.node()->history = 1;
  if (x.evaluated()) {  // t is not shared yet
    t.node()->storage = x.node()->storage;
    t.node()->evaluated.store(true, std::memory_order_release);
    const Forgotten forgotten = forget_inputs(t.node());
  }
  return t;
}

Tensor stop_gradient(const Tensor& x) {
  if (x.node()->history == 0) return x;
  return make_node(Op::stop_gradient, x.dtype(), x.shape(), {x});
}

Gradients::Gradients(std::vector<std::pair<Tensor, Tensor>> entries)
    : entries_(std::move(entries)), made_(next_node_id()) {}

Tensor Gradients::operator[](const Tensor& variable) const {
  for (const auto& [v, g] : entries_) {
    if (v.node() == variable.node()) return g;
  }
  require(variable.defined() && variable.node()->op == Op::variable,
          "Gradients: this tensor is not a variable; gradients are kept for what variable() made, also after an "
          "update: x = variable(x - step)");
  // Zeros would be read as a vanished gradient. Another thread's ids may be smaller: what it makes has zeros.
  require(variable.node()->id < made_,
          "Gradients: this variable was made after these gradients, by a step or an update; read its gradient before, or "
          "keep the variable that the loss was computed from");
  return beside(zeros_like(variable), variable);
}

bool Gradients::contains(const Tensor& variable) const {
  for (const auto& [v, g] : entries_) {
    if (v.node() == variable.node()) return true;
  }
  return false;
}

Gradients backward(const Tensor& loss, const BackwardOptions& options) {
  require(loss.defined(), "backward: the loss has no value");
  const Tensor g = seed("backward", loss, options.grad);
  require((loss.node()->history & 1) != 0,
          "backward: the loss depends on no variable; make one with variable(x); gradients have a history where backward "
          "was asked for it by create_graph");
  NoHistory off(!options.create_graph);
  ReversePass pass;
  pass.outputs = {loss};
  pass.cotangents = {g};
  pass.consume = !options.keep_history && !options.create_graph;
  std::vector<Tensor> variables;
  const std::vector<Tensor> grads = reverse(pass, &variables);
  std::vector<std::pair<Tensor, Tensor>> entries;
  std::vector<Tensor> together{loss};
  for (std::size_t i = 0; i < variables.size(); ++i) {
    entries.emplace_back(variables[i], beside(grads[i], variables[i]));
    together.push_back(entries.back().second);
  }
  Companions::make(together);
  return Gradients(std::move(entries));
}

std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> value_and_grad(
    const FunctionOfMany& f) {
  return [f](const std::vector<Tensor>& xs) {
    GradientLevel level;
    std::vector<Tensor> tracked;
    for (const Tensor& x : xs) {
      require_floating("grad", x);
      tracked.push_back(level.track(x));
    }
    const Tensor y = f(tracked);
    std::vector<Tensor> g = level.pull(y, seed("grad", y, {}), tracked);
    std::vector<Tensor> together{y};
    together.insert(together.end(), g.begin(), g.end());
    Companions::make(together);
    return std::make_pair(y, std::move(g));
  };
}

std::function<std::pair<Tensor, Tensor>(const Tensor&)> value_and_grad(const Function& f) {
  return [many = value_and_grad(FunctionOfMany([f](const std::vector<Tensor>& xs) { return f(xs[0]); }))](
             const Tensor& x) {
    auto [y, g] = many({x});
    return std::make_pair(y, g[0]);
  };
}

Function grad(const Function& f) {
  return [both = value_and_grad(f)](const Tensor& x) { return both(x).second; };
}

std::function<std::vector<Tensor>(const std::vector<Tensor>&)> grad(const FunctionOfMany& f) {
  return [both = value_and_grad(f)](const std::vector<Tensor>& xs) { return both(xs).second; };
}

std::pair<Tensor, Function> vjp(const Function& f, const Tensor& x) {
  require_floating("vjp", x);
  // The pull may be called long after this level is closed, and more than once; it opens its own level and runs f again
  // there. Lazily: f of the same x gives the same graph, which merges when both are evaluated together.
  Tensor y = f(x);
  Function pull = [f, x](const Tensor& g) {
    GradientLevel level;
    const Tensor tracked = level.track(x);
    const Tensor again = f(tracked);
    return level.pull(again, seed("vjp", again, g), {tracked})[0];
  };
  return {y, pull};
}

std::pair<Tensor, Tensor> jvp(const Function& f, const Tensor& x, const Tensor& v) {
  require_floating("jvp", x);
  require(v.shape() == x.shape(), "jvp: the tangent has shape {}, the input {}", v.shape(), x.shape());
  // The vjp u -> uᵀJ is linear in u, so its own vjp with v is J·v.
  GradientLevel outer;
  Tensor y, jv;
  {
    GradientLevel inner;
    const Tensor tracked = inner.track(x);
    y = f(tracked);
    const Tensor u = outer.track(zeros_like(y));
    const Tensor pulled = inner.pull(y, u, {tracked}, true)[0];
    jv = outer.pull(pulled, cast(v, pulled.dtype()), {u})[0];
  }
  return {y, jv};
}

namespace {

// The largest number of intermediate elements for a block of rows: about a cache's worth.
constexpr std::int64_t kPiece = std::int64_t{1} << 21;

// Many rows of a Jacobian at a time; undefined if that is not possible.
Tensor rows_together(const GradientLevel& level, const Tensor& y, const Tensor& tracked, const Tensor& basis) {
  if (level.is_differentiated(y)) return {};
  const Tensor hole = make_placeholder(y.dtype(), y.shape(), contiguous_strides(y.shape()), y.device());
  Tensor row;
  try {
    Tracing scope;
    row = level.pull(y, hole, {tracked})[0];
  } catch (const LooksAtPlaceholder&) {
    return {};  // a user-defined rule reads values
  }
  const Batch batch(row, hole);
  const std::int64_t m = y.numel(), piece = std::min(m, kPiece / batch.largest());
  if (!batch.possible() || piece < 2) return {};
  NoHistory off;
  std::vector<Tensor> pieces;
  for (std::int64_t from = 0; from < m; from += piece) {
    const std::int64_t rows = std::min(piece, m - from);
    pieces.push_back(batch.of(reshape(narrow(basis, 0, from, rows), y.shape().inserted(0, rows))));
  }
  return pieces.size() == 1 ? pieces[0] : cat(pieces, 0);
}

}  // namespace

Tensor jacobian(const Function& f, const Tensor& x) {
  require_floating("jacobian", x);
  GradientLevel level;
  const Tensor tracked = level.track(x);
  const Tensor y = f(tracked);
  require_floating("jacobian", y);
  const std::int64_t m = y.numel();
  std::vector<std::int64_t> shape(y.shape().begin(), y.shape().end());
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  if (m == 0) return zeros(Shape(shape), x.dtype());
  const Tensor basis = eye(m, m, y.dtype());
  const Tensor together = rows_together(level, y, tracked, basis);
  if (together.defined()) return reshape(together, Shape(shape));
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < m; ++i) rows.push_back(level.pull(y, reshape(basis[i], y.shape()), {tracked})[0]);
  return reshape(stack(rows, 0), Shape(shape));
}

Tensor hvp(const Function& f, const Tensor& x, const Tensor& v) {
  require(v.shape() == x.shape(), "hvp: the vector has shape {}, the input {}", v.shape(), x.shape());
  const Function df = grad(f);
  const Tensor fixed = stop_gradient(v);
  return grad(Function([&](const Tensor& z) { return sum(df(z) * cast(fixed, z.dtype())); }))(x);
}

Tensor hessian(const Function& f, const Tensor& x) { return jacobian(grad(f), x); }

}  // namespace ebb
