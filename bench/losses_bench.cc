// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include "worker/cases.h"

// The losses, as compiled functions: its value, and value and gradients. `peak` is what the pool held
// beyond the inputs, `elements` a second of the first input. For one of them:
//   bench_losses --benchmark_filter='^huber_loss'
namespace {

using namespace ebb;
using bench::Size;

void register_loss(const bench::Case& c, Size size, bool with_gradient) {
  const std::string name = c.name + (with_gradient ? ", gradients/" : "/") + bench::name(size);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&c, size, with_gradient](benchmark::State& state) {
        const std::vector<bench::Input> inputs = c.inputs(size);
        const bench::Tensors tensors = bench::make_inputs(inputs, DType::f32);
        const FunctionToMany call =
            compile(FunctionToMany([&](const bench::Tensors& x) { return bench::build(c, inputs, x, with_gradient); }));
        for (auto _ : state) call(tensors);
        state.SetItemsProcessed(state.iterations() * tensors[0].numel());
        release_cached_memory();
        reset_peak_memory();
        const std::size_t before = memory_stats().live;
        call(tensors);
        state.counters["peak"] = benchmark::Counter(static_cast<double>(memory_stats().peak - before),
                                                    benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
      })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<bench::Case> cases = bench::loss_cases();
  for (const Size size : {Size::tiny, Size::small, Size::medium, Size::large}) {
    for (const bench::Case& c : cases) {
      for (const bool with_gradient : {false, true}) register_loss(c, size, with_gradient);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
