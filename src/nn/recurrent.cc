#include "ebb/nn/recurrent.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::nn {
namespace {

// x·Wᵀ + b.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = matmul(x, t(weight));
  return bias.defined() ? y + bias : y;
}

// The part of the input of all steps is one product; only that of the state has to wait for the step before.
template <class Step>
Tensor over_time(const char* name, const RecurrentWeights& w, const Tensor& x, Step step) {
  require(x.rank() == 3 && x.size(2) == w.weight_ih.size(1), "{}: the input must have shape [batch, time, {}], got {}",
          name, w.weight_ih.size(1), x.shape());
  require(x.size(1) > 0, "{}: the input has no time steps, its shape is {}", name, x.shape());
  const Tensor inputs = linear(x, w.weight_ih, w.bias_ih);
  std::vector<Tensor> outputs;
  for (std::int64_t k = 0; k < x.size(1); ++k) outputs.push_back(step(select(inputs, 1, k)));
  return stack(outputs, 1);
}

Tensor state_or_zeros(const char* name, const RecurrentWeights& w, const Tensor& x, const Tensor& state) {
  if (!state.defined()) return zeros({x.rank() > 0 ? x.size(0) : 0, w.hidden}, w.weight_hh.dtype());
  require(x.rank() > 0 && state.shape() == Shape({x.size(0), w.hidden}),
          "{}: the state must have shape [{}, {}], got {}", name, x.rank() > 0 ? x.size(0) : 0, w.hidden,
          state.shape());
  return state;
}

}  // namespace

RecurrentWeights::RecurrentWeights(std::int64_t in, std::int64_t size, int gates, const RecurrentOptions& o)
    : hidden(size) {
  require(in >= 0 && size > 0, "Recurrent: the hidden size must be positive, got {} for {} inputs", size, in);
  const double bound = 1 / std::sqrt(static_cast<double>(size));
  const std::int64_t rows = gates * size;
  weight_ih = variable(uniform({rows, in}, -bound, bound, o.dtype));
  weight_hh = variable(uniform({rows, size}, -bound, bound, o.dtype));
  if (!o.bias) return;
  bias_ih = variable(uniform({rows}, -bound, bound, o.dtype));
  bias_hh = variable(uniform({rows}, -bound, bound, o.dtype));
}

Rnn::Rnn(std::int64_t in, std::int64_t hidden, const RecurrentOptions& o)
    : RecurrentWeights(in, hidden, 1, o), use_relu(o.relu) {}

Sequence Rnn::operator()(const Tensor& x, const Tensor& first) const {
  Tensor h = state_or_zeros("Rnn", *this, x, first);
  const Tensor output = over_time("Rnn", *this, x, [&](const Tensor& input) {
    const Tensor s = input + linear(h, weight_hh, bias_hh);
    return h = use_relu ? relu(s) : tanh(s);
  });
  return {output, h};
}

Lstm::Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& o) : RecurrentWeights(in, hidden, 4, o) {}

Sequence Lstm::operator()(const Tensor& x, const Tensor& first_h, const Tensor& first_c) const {
  Tensor h = state_or_zeros("Lstm", *this, x, first_h), c = state_or_zeros("Lstm", *this, x, first_c);
  const Tensor output = over_time("Lstm", *this, x, [&](const Tensor& input) {
    const auto gates = chunk(input + linear(h, weight_hh, bias_hh), 4, 1);  // i, f, g, o
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    return h = sigmoid(gates[3]) * tanh(c);
  });
  return {output, h, c};
}

Gru::Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& o) : RecurrentWeights(in, hidden, 3, o) {}

Sequence Gru::operator()(const Tensor& x, const Tensor& first) const {
  Tensor h = state_or_zeros("Gru", *this, x, first);
  const Tensor output = over_time("Gru", *this, x, [&](const Tensor& input) {
    const auto from_x = chunk(input, 3, 1), from_h = chunk(linear(h, weight_hh, bias_hh), 3, 1);  // r, z, n
    const Tensor r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    const Tensor n = tanh(from_x[2] + r * from_h[2]);
    return h = (1.0 - z) * n + z * h;
  });
  return {output, h};
}

}  // namespace ebb::nn
