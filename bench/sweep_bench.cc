// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include "ebb/ebb.h"

// The parts of an evaluation: kinds of sweeps by their bytes, and what a graph costs beside the numbers in it.
namespace {

using namespace ebb;

Tensor numbers(const Shape& shape) { return randn(shape).eval(); }

void count_bytes(benchmark::State& state, std::int64_t elements_moved) {
  state.SetBytesProcessed(state.iterations() * elements_moved * 4);
}

// ---- sweeps: bytes_per_second counts inputs read once and results written once --------------------------------------

void elementwise(benchmark::State& state) {
  const Tensor a = numbers({state.range(0)}), b = numbers({state.range(0)});
  for (auto _ : state) (a * b + 1).eval();
  count_bytes(state, 3 * state.range(0));
}

void full_sum(benchmark::State& state) {
  const Tensor a = numbers({state.range(0)});
  for (auto _ : state) sum(a).eval();
  count_bytes(state, state.range(0));
}

void value_and_gradient(benchmark::State& state) {
  const Tensor x = numbers({state.range(0)}), t = numbers({state.range(0)});
  for (auto _ : state) {
    const Tensor v = variable(x), loss = mse_loss(v, t);
    eval({loss, backward(loss)[v]});
  }
  count_bytes(state, 3 * state.range(0));
}

// Rows of 1,024: every stage of a row finds it in the cache.
void row_softmax(benchmark::State& state) {
  const Tensor x = numbers({state.range(0) / 1024, 1024});
  for (auto _ : state) softmax(x).eval();
  count_bytes(state, 2 * state.range(0));
}

void row_layer_norm(benchmark::State& state) {
  const Tensor x = numbers({state.range(0) / 1024, 1024});
  for (auto _ : state) layer_norm(x, {1024}).eval();
  count_bytes(state, 2 * state.range(0));
}

void column_sum(benchmark::State& state) {
  const Tensor x = numbers({state.range(0) / 1024, 1024});
  for (auto _ : state) sum(x, 0).eval();
  count_bytes(state, state.range(0));
}

void broadcast_row(benchmark::State& state) {
  const Tensor x = numbers({state.range(0) / 1024, 1024}), bias = numbers({1024});
  for (auto _ : state) (x + bias).eval();
  count_bytes(state, 2 * state.range(0));
}

void transposed_read(benchmark::State& state) {
  const Tensor x = numbers({state.range(0) / 1024, 1024});
  for (auto _ : state) contiguous(transpose(x, 0, 1)).eval();
  count_bytes(state, 2 * state.range(0));
}

// ---- graphs: sixteen numbers, so that only the nodes cost -----------------------------------------------------------

Tensor chain(Tensor x, const Tensor& m, const Tensor& a, std::int64_t nodes) {
  for (std::int64_t k = 0; k < nodes / 2; ++k) x = x * m + a;
  return sum(x);
}

void build(benchmark::State& state) {
  const Tensor x = numbers({16}), m = numbers({16}), a = numbers({16});
  for (auto _ : state) benchmark::DoNotOptimize(chain(x, m, a, state.range(0)).node());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void build_and_evaluate(benchmark::State& state) {
  const Tensor x = numbers({16}), m = numbers({16}), a = numbers({16});
  for (auto _ : state) chain(x, m, a, state.range(0)).eval();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void build_and_differentiate(benchmark::State& state) {
  const Tensor x = numbers({16}), m = numbers({16}), a = numbers({16});
  for (auto _ : state) {
    const Tensor v = variable(x), loss = chain(v, m, a, state.range(0));
    eval({loss, backward(loss)[v]});
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Shapes that were never seen: what scheduling costs when nothing is cached.
void schedule_anew(benchmark::State& state) {
  const Tensor x = numbers({16}), m = numbers({16}), a = numbers({16});
  std::int64_t rows = 1;
  for (auto _ : state) {
    state.PauseTiming();
    const Tensor wide = expand(x, {++rows, 16});
    state.ResumeTiming();
    chain(wide, m, a, state.range(0)).eval();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* b) { b->Arg(1 << 10)->Arg(1 << 14)->Arg(1 << 18)->Arg(1 << 24); }
void lengths(benchmark::internal::Benchmark* b) { b->Arg(2)->Arg(20)->Arg(400); }

BENCHMARK(elementwise)->Apply(sizes)->UseRealTime();
BENCHMARK(full_sum)->Apply(sizes)->UseRealTime();
BENCHMARK(value_and_gradient)->Apply(sizes)->UseRealTime();
BENCHMARK(row_softmax)->Apply(sizes)->UseRealTime();
BENCHMARK(row_layer_norm)->Apply(sizes)->UseRealTime();
BENCHMARK(column_sum)->Apply(sizes)->UseRealTime();
BENCHMARK(broadcast_row)->Apply(sizes)->UseRealTime();
BENCHMARK(transposed_read)->Apply(sizes)->UseRealTime();
BENCHMARK(build)->Apply(lengths);
BENCHMARK(build_and_evaluate)->Apply(lengths)->UseRealTime();
BENCHMARK(build_and_differentiate)->Apply(lengths)->UseRealTime();
BENCHMARK(schedule_anew)->Arg(20)->Iterations(200)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
