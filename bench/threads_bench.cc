// SPDX-License-Identifier: MIT
// Threads that evaluate graphs of their own: items_per_second of two threads over that of one is what the lock leaves.
#include <benchmark/benchmark.h>

#include "ebb/ebb.h"

namespace {

using ebb::Tensor;

Tensor ramp(std::int64_t n) { return (ebb::linspace(0, 1, n)).eval(); }

// Builds and evaluates a loss of a thousand elements and its gradient.
void value_and_gradient(benchmark::State& state) {
  const Tensor x = ramp(1000), y = ramp(1000) * 2;
  y.eval();
  for (auto _ : state) {
    auto [v, g] = ebb::value_and_grad(ebb::Function([&](const Tensor& a) { return ebb::mse_loss(a, y); }))(x);
    benchmark::DoNotOptimize(v.item());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(value_and_gradient)->ThreadRange(1, 16)->UseRealTime();

// A chain of elementwise operations and a sum, nothing differentiated.
void forward(benchmark::State& state) {
  const Tensor x = ramp(1000);
  for (auto _ : state) benchmark::DoNotOptimize(ebb::sum(ebb::tanh(x * 2 + 1) * x).item());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(forward)->ThreadRange(1, 16)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
