// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "ebb/amp.h"
#include "ebb/data/loader.h"
#include "ebb/distributed.h"
#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"

// Networks of a few hundred parameters, trained for some steps by all ranks of the world.
namespace small {

using namespace ebb;

struct Mlp {
  nn::Linear first{12, 16}, second{16, 5};
  nn::Dropout dropout{0.2};
  Tensor operator()(const Tensor& x) const { return second(dropout(relu(first(x)))); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("dropout", dropout);
  }
};

struct ConvNet {
  nn::Conv2d conv{1, 4, 3, {.padding = 1}};
  nn::BatchNorm norm{4};
  nn::Linear head{4 * 12, 5};
  Tensor operator()(const Tensor& x) { return head(flatten(relu(norm(conv(reshape(x, {-1, 1, 3, 4})))), 1)); }
  template <class V>
  void visit(V&& v) {
    v("conv", conv);
    v("norm", norm);
    v("head", head);
  }
};

struct Gpt {
  nn::Embedding tokens{8, 16};
  nn::TransformerBlock block{16, 2, nn::TransformerBlockOptions{.dropout = 0.1}};
  nn::Linear head{16, 5};
  Tensor operator()(const Tensor& x) {
    return head(mean(block(tokens(cast(floor(abs(x)) * 1.0, DType::i64)), {.causal = true}), 1));
  }
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("block", block);
    v("head", head);
  }
};

struct Data {
  Tensor inputs, labels;
};
inline Data some_data(std::int64_t rows = 120) {
  manual_seed(7);
  const Tensor x = clamp(randn({rows, 12}) * 2.0, -7.5, 7.5).eval();
  return {x, cast(floor(rand({rows}) * 5.0), DType::i64).eval()};
}

struct Settings {
  int shards = 4;
  int steps = 50;
  int accumulate = 1;
  double clip = 0;
  bool sharded = false;    // the optimiser
  bool to_owners = false;  // gradients, where it is
  bool overlap = false;    // their exchange with the reverse pass
  bool half = false;       // f16 with a loss scaler that skips steps at first
  std::string optimizer = "adamw";
  std::int64_t bucket_bytes = 8 << 20;
  std::int64_t batch = 24;
};

// Every bit of parameters, buffers and losses.
template <class Model>
std::string trained(const Settings& s = {}) {
  const Data data = some_data();
  manual_seed(3);
  Model model;
  distributed::DataParallel parallel(
      {.shards = s.shards, .bucket_bytes = s.bucket_bytes, .to_owners = s.to_owners, .overlap = s.overlap});
  distributed::ShardedOptimizer optimizer(make_optimizer(s.optimizer, {{"lr", 1e-2}}),
                                          s.sharded ? distributed::world() : distributed::world_of_one());
  LossScaler scaler({.scale = 0x1p40, .growth_interval = 7});
  DataLoader loader({data.inputs, data.labels}, parallel.loader_options({.batch_size = s.batch, .drop_last = true}));
  std::string bits;
  const auto note = [&](const Tensor& t) {
    const std::vector<double> values = cast(t, DType::f64).to_vector();
    bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  };
  distributed::DataParallel::Backward backward_of;
  if (s.half) backward_of = [&](const Tensor& loss) { return scaler.unscale(backward(scaler.scale(loss))); };
  for (int step = 0; step < s.steps; ++step) {
    for (int k = 0; k < s.accumulate;) {
      const auto batch = loader.next_shards();
      if (!batch) continue;
      ++k;
      parallel.add(
          model, *batch,
          [&](Model& m, const Batch& b) {
            if (!s.half) return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])};
            Model half = cast_parameters(m, DType::f16);
            const Tensor loss = cross_entropy(cast(half(cast(b[0], DType::f16)), DType::f32), b[1]);
            take_buffers(m, half);
            return distributed::ShardLoss{loss};
          },
          backward_of);
    }
    auto [loss, sums, gradients] = parallel.take(model);
    if (s.clip > 0) {
      gradients = s.to_owners ? optimizer.clip_by_norm(model, gradients, s.clip).gradients
                              : clip_by_norm(gradients, s.clip).gradients;
    }
    if (s.half) {
      scaler.step_unscaled(optimizer, model, gradients);
    } else {
      optimizer.step(model, gradients);
    }
    note(loss);
  }
  for (const Parameter& p : state(model)) note(*p.tensor);
  if (s.half) bits += scaler.str();
  for (const auto& [name, t] : optimizer.state()) note(t);
  return bits;
}

}  // namespace small
