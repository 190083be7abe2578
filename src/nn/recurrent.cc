// SPDX-License-Identifier: MIT
#include "ebb/nn/recurrent.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::nn {
namespace {

// x·Wᵀ + b. Not the operation linear: the sum of a step's two parts should be a single sweep.
Tensor part(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = matmul(x, t(weight));
  return bias.defined() ? y + bias : y;
}

// The state that a step passes to the next one, [batch, out] and [batch, hidden]; c only for the Lstm.
struct State {
  Tensor h, c = {};
};

// Runs one layer in one direction; `s` becomes its last state. The input's part of all steps is one product; only that
// of the state has to wait for the previous step.
template <class Step>
Tensor over_time(const RecurrentWeights& w, const Tensor& x, std::int64_t time_axis, bool backwards, State& s,
                 const Step& step) {
  const Tensor inputs = part(x, w.weight_ih, w.bias_ih);
  const std::int64_t steps = x.size(time_axis);
  std::vector<Tensor> outputs(static_cast<std::size_t>(steps));
  for (std::int64_t k = 0; k < steps; ++k) {
    const std::int64_t at = backwards ? steps - 1 - k : k;
    s = step(w, select(inputs, time_axis, at), s);
    outputs[static_cast<std::size_t>(at)] = s.h;
  }
  return stack(outputs, time_axis);
}

Tensor state_or_zeros(const char* name, const Recurrent& r, std::int64_t batch, std::int64_t size,
                      const Tensor& state) {
  const Shape shape{static_cast<std::int64_t>(r.weights.size()), batch, size};
  if (!state.defined()) return zeros(shape, r.weights[0].weight_hh.dtype());
  require(state.shape() == shape, "{}: the state must have shape {}, got {}", name, shape, state.shape());
  return state;
}

// step(weights, the input's part of the gates, state) returns the next state.
template <class Step>
Sequence over_layers(const char* name, const Recurrent& r, const Tensor& x, const Tensor& first_h,
                     const Tensor* first_c, const Step& step) {
  const std::int64_t time_axis = r.batch_first ? 1 : 0;
  require(x.rank() == 3 && x.size(2) == r.in, "{}: the input must have shape [{}, {}], got {}", name,
          r.batch_first ? "batch, time" : "time, batch", r.in, x.shape());
  require(x.size(time_axis) > 0, "{}: the input has no time steps, its shape is {}", name, x.shape());
  const std::int64_t batch = x.size(1 - time_axis);
  const Tensor h = state_or_zeros(name, r, batch, r.out, first_h);
  const Tensor c = first_c ? state_or_zeros(name, r, batch, r.hidden, *first_c) : Tensor{};

  const std::size_t directions = r.bidirectional ? 2 : 1;
  std::vector<Tensor> last_h, last_c;
  Tensor output = x;
  for (std::size_t k = 0; k < r.weights.size(); k += directions) {
    const Tensor input = k == 0 ? x : r.dropout(output);
    std::vector<Tensor> sides;
    for (std::size_t d = 0; d < directions; ++d) {
      const auto row = static_cast<std::int64_t>(k + d);
      State s{h[row], first_c ? c[row] : Tensor{}};
      sides.push_back(over_time(r.weights[k + d], input, time_axis, d == 1, s, step));
      last_h.push_back(s.h);
      if (first_c) last_c.push_back(s.c);
    }
    output = directions == 1 ? sides[0] : cat(sides, 2);
  }
  return {output, stack(last_h), first_c ? stack(last_c) : Tensor{}};
}

}  // namespace

Recurrent::Recurrent(const char* name, std::int64_t inputs, std::int64_t size, int gates, const RecurrentOptions& o)
    : in(inputs),
      hidden(size),
      out(o.proj_size > 0 ? o.proj_size : size),
      bidirectional(o.bidirectional),
      batch_first(o.batch_first),
      dropout(o.dropout) {
  require(in >= 0 && size > 0, "{}: the hidden size must be positive, got {} for {} inputs", name, size, in);
  require(o.num_layers > 0, "{}: num_layers must be positive, got {}", name, o.num_layers);
  require(o.proj_size == 0 || gates == 4, "{}: proj_size is for an Lstm; put a Linear behind the layer", name);
  require(o.proj_size >= 0 && o.proj_size < size, "{}: proj_size must be less than the hidden size {}, got {}", name,
          size, o.proj_size);
  const double bound = 1 / std::sqrt(static_cast<double>(size));
  const std::int64_t rows = gates * size, directions = o.bidirectional ? 2 : 1;
  const auto draw = [&](const Shape& shape) { return variable(uniform(shape, -bound, bound, o.dtype)); };
  for (std::int64_t k = 0; k < o.num_layers * directions; ++k) {
    RecurrentWeights w{.weight_ih = draw({rows, k < directions ? in : directions * out}),
                       .weight_hh = draw({rows, out}),
                       .bias_ih = {},
                       .bias_hh = {}};
    if (o.bias) w.bias_ih = draw({rows}), w.bias_hh = draw({rows});
    if (o.proj_size > 0) w.weight_hr = draw({out, size});
    weights.push_back(std::move(w));
  }
}

std::string Recurrent::ending(std::size_t k) const {
  if (!bidirectional) return "_l" + std::to_string(k);
  return "_l" + std::to_string(k / 2) + (k % 2 == 1 ? "_reverse" : "");
}

Rnn::Rnn(std::int64_t inputs, std::int64_t size, const RecurrentOptions& o)
    : Recurrent("Rnn", inputs, size, 1, o), use_relu(o.relu) {}

Sequence Rnn::operator()(const Tensor& x, const Tensor& first) const {
  return over_layers("Rnn", *this, x, first, nullptr,
                     [this](const RecurrentWeights& w, const Tensor& input, const State& s) {
                       const Tensor sum = input + part(s.h, w.weight_hh, w.bias_hh);
                       return State{use_relu ? relu(sum) : tanh(sum)};
                     });
}

Lstm::Lstm(std::int64_t inputs, std::int64_t size, const RecurrentOptions& o) : Recurrent("Lstm", inputs, size, 4, o) {}

Sequence Lstm::operator()(const Tensor& x, const Tensor& first_h, const Tensor& first_c) const {
  return over_layers("Lstm", *this, x, first_h, &first_c,
                     [](const RecurrentWeights& w, const Tensor& input, const State& s) {
                       const auto gates = chunk(input + part(s.h, w.weight_hh, w.bias_hh), 4, 1);  // i, f, g, o
                       const Tensor c = sigmoid(gates[1]) * s.c + sigmoid(gates[0]) * tanh(gates[2]);
                       const Tensor h = sigmoid(gates[3]) * tanh(c);
                       return State{w.weight_hr.defined() ? matmul(h, t(w.weight_hr)) : h, c};
                     });
}

Gru::Gru(std::int64_t inputs, std::int64_t size, const RecurrentOptions& o) : Recurrent("Gru", inputs, size, 3, o) {}

Sequence Gru::operator()(const Tensor& x, const Tensor& first) const {
  return over_layers("Gru", *this, x, first, nullptr,
                     [](const RecurrentWeights& w, const Tensor& input, const State& s) {
                       const auto from_x = chunk(input, 3, 1);  // r, z, n
                       const auto from_h = chunk(part(s.h, w.weight_hh, w.bias_hh), 3, 1);
                       const Tensor r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
                       const Tensor n = tanh(from_x[2] + r * from_h[2]);
                       return State{(1.0 - z) * n + z * s.h};
                     });
}

}  // namespace ebb::nn
