#pragma once
#include "ebb/nn/parameters.h"

// Recurrent networks of one layer on [batch, time, features] (torch.nn.RNN, LSTM, GRU with batch_first); stack several
// for a deeper one. Parameters begin uniform in ±1/√hidden.
namespace ebb::nn {

struct RecurrentOptions {
  bool bias = true;
  bool relu = false;  // Rnn only: instead of tanh
  DType dtype = DType::f32;
};

// The weights of `gates` blocks of rows below each other, in torch's order.
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;  // [gates·hidden, in], [gates·hidden, hidden], [gates·hidden]
  std::int64_t hidden;
  RecurrentWeights(std::int64_t in, std::int64_t hidden, int gates, const RecurrentOptions& options);
  template <class V>
  void visit(V&& v) {
    v("weight_ih_l0", weight_ih);
    v("weight_hh_l0", weight_hh);
    v("bias_ih_l0", bias_ih);
    v("bias_hh_l0", bias_hh);
  }
};

struct Sequence {
  Tensor output;  // [batch, time, hidden]
  Tensor h;       // [batch, hidden] after the last step
  Tensor c = {};  // Lstm only
};

// h ← tanh(W·x + b + U·h + c)
struct Rnn : RecurrentWeights {
  bool use_relu;
  Rnn(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}) const;  // h undefined: zeros
};

// i, f, o = σ, g = tanh of their parts;  c ← f·c + i·g,  h ← o·tanh(c)
struct Lstm : RecurrentWeights {
  Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}, const Tensor& c = {}) const;
};

// r, z = σ of their parts,  n = tanh(W·x + b + r·(U·h + c)),  h ← (1 − z)·n + z·h
struct Gru : RecurrentWeights {
  Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}) const;
};

}  // namespace ebb::nn
