// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "ebb/nn/layers.h"

// Recurrent networks, torch.nn.RNN, LSTM and GRU. Sequences are [batch, time, features] unless batch_first is false.
// Parameters are initialised uniformly in ±1/√hidden.
namespace ebb::nn {

struct RecurrentOptions {
  bool bias = true;
  bool relu = false;            // Rnn only: instead of tanh
  std::int64_t num_layers = 1;  // each reads the outputs of the previous one
  bool bidirectional = false;   // a second network runs backwards in time; outputs are concatenated
  double dropout = 0;           // of the outputs of all layers but the last, in training
  bool batch_first = true;      // false: [time, batch, features], PyTorch's default
  std::int64_t proj_size = 0;   // Lstm only: h is a projection of o·tanh(c) to this many numbers; 0: none
  DType dtype = DType::f32;
};

// One layer in one direction: the weights of its gates stacked, in PyTorch's order.
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;  // [gates·hidden, in], [gates·hidden, out], [gates·hidden]
  Tensor weight_hr = {};                          // [out, hidden], with proj_size
};

// The common part of the three. Names are PyTorch's: "weight_ih_l0", "weight_ih_l0_reverse", "weight_ih_l1", ...
struct Recurrent {
  std::int64_t in, hidden, out;  // out: the size of h, which is hidden or proj_size
  bool bidirectional, batch_first;
  std::vector<RecurrentWeights> weights;  // layer by layer; in each, forward and then backward
  Dropout dropout;
  Recurrent(const char* name, std::int64_t in, std::int64_t hidden, int gates, const RecurrentOptions& options);
  template <class V>
  void visit(V&& v) {
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::string end = ending(k);
      v(("weight_ih" + end).c_str(), weights[k].weight_ih);
      v(("weight_hh" + end).c_str(), weights[k].weight_hh);
      v(("bias_ih" + end).c_str(), weights[k].bias_ih);
      v(("bias_hh" + end).c_str(), weights[k].bias_hh);
      v(("weight_hr" + end).c_str(), weights[k].weight_hr);
    }
    v("dropout", dropout);
  }

 private:
  std::string ending(std::size_t k) const;
};

// States are [layers·directions, batch, out], c with hidden in place of out, in the order of the weights; an omitted
// state is zeros.
struct Sequence {
  Tensor output;  // of the last layer: [batch, time, directions·out], or time first
  Tensor h;       // after the last step
  Tensor c = {};  // Lstm only
};

// h ← tanh(W·x + b + U·h + c)
struct Rnn : Recurrent {
  bool use_relu;
  Rnn(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}) const;
};

// i, f, o = σ, g = tanh of their parts;  c ← f·c + i·g,  h ← o·tanh(c), with proj_size R·(o·tanh(c))
struct Lstm : Recurrent {
  Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}, const Tensor& c = {}) const;
};

// r, z = σ of their parts,  n = tanh(W·x + b + r·(U·h + c)),  h ← (1 − z)·n + z·h
struct Gru : Recurrent {
  Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Sequence operator()(const Tensor& x, const Tensor& h = {}) const;
};

}  // namespace ebb::nn
