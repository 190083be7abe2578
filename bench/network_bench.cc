// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "ebb/ebb.h"

// The parts of networks: convolutions, pools, attention, the optimiser's step; forward, and with the gradients of all
// inputs. `peak` is what the pool held beyond the inputs. Names that end in `small` take an instant and are run by the
// tests.
namespace {

using namespace ebb;
using Tensors = std::vector<Tensor>;

Tensor numbers(const Shape& shape) { return randn(shape).eval(); }

struct Part {
  const char* name;
  std::function<Tensors(bool small)> inputs;
  std::function<Tensor(const Tensors&)> forward;
  std::function<double(const Tensors&)> operations;  // multiplications and additions of the forward pass
};

double convolution_operations(const Tensors& in, const Tensor& out) {
  const Shape& w = in[1].shape();
  return 2.0 * static_cast<double>(out.numel() * w[1] * w[2] * w[3]);
}

Part convolution(const char* name, Shape x, Shape w, Shape small_x, Shape small_w, ConvOptions options) {
  const auto forward = [=](const Tensors& in) {
    ConvOptions o = options;
    o.groups = in[0].size(1) / in[1].size(1);
    return conv2d(in[0], in[1], {}, o);
  };
  return {name,
          [=](bool small) {
            return Tensors{numbers(small ? small_x : x), numbers(small ? small_w : w)};
          },
          forward, [=](const Tensors& in) { return convolution_operations(in, forward(in)); }};
}

Part attention(const char* name, bool causal) {
  return {name,
          [](bool small) {
            const Shape shape = small ? Shape{1, 2, 7, 8} : Shape{2, 8, 1024, 64};
            return Tensors{numbers(shape), numbers(shape), numbers(shape)};
          },
          [=](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = causal}); },
          [=](const Tensors& in) {  // two products; half of them where the future is hidden
            const double all = 4.0 * static_cast<double>(in[0].numel() * in[0].size(2));
            return causal ? all / 2 : all;
          }};
}

std::vector<Part> parts() {
  return {
      convolution("conv2d 3x3", {16, 64, 56, 56}, {64, 64, 3, 3}, {1, 3, 7, 7}, {4, 3, 3, 3}, {.padding = 1}),
      convolution("conv2d 1x1", {16, 256, 28, 28}, {128, 256, 1, 1}, {1, 3, 7, 7}, {4, 3, 1, 1}, {}),
      convolution("conv2d 7x7 stride 2", {16, 3, 224, 224}, {64, 3, 7, 7}, {1, 3, 9, 9}, {4, 3, 7, 7},
                  {.stride = 2, .padding = 3}),
      convolution("conv2d depthwise", {16, 128, 56, 56}, {128, 1, 3, 3}, {1, 4, 7, 7}, {4, 1, 3, 3}, {.padding = 1}),
      {"max_pool2d",
       [](bool small) {
         return Tensors{numbers(small ? Shape{1, 2, 6, 6} : Shape{16, 64, 112, 112})};
       },
       [](const Tensors& in) { return max_pool2d(in[0], 2); },
       [](const Tensors& in) { return static_cast<double>(in[0].numel()); }},
      attention("attention", false),
      attention("attention causal", true),
  };
}

void report(benchmark::State& state, double operations, const std::function<void()>& once) {
  release_cached_memory();
  reset_peak_memory();
  const std::size_t before = memory_stats().live;
  once();
  state.counters["peak"] = benchmark::Counter(static_cast<double>(memory_stats().peak - before),
                                              benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
  state.counters["operations"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void register_part(const Part& part, bool with_gradients, bool small) {
  const std::string name =
      std::string(part.name) + (with_gradients ? ", gradients" : "") + (small ? "/small" : "/large");
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 const Tensors inputs = part.inputs(small);
                                 const std::function<void()> once = [&] {
                                   if (!with_gradients) {
                                     part.forward(inputs).eval();
                                     return;
                                   }
                                   Tensors variables;
                                   for (const Tensor& x : inputs) variables.push_back(variable(x));
                                   const Tensor loss = sum(square(part.forward(variables)));
                                   const Gradients g = backward(loss);
                                   Tensors results{loss};
                                   for (const Tensor& v : variables) results.push_back(g[v]);
                                   eval(results);
                                 };
                                 for (auto _ : state) once();
                                 // Each product of the forward pass has two in the backward pass.
                                 report(state, part.operations(inputs) * (with_gradients ? 3 : 1), once);
                               })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

// A step of the optimiser alone, for gradients that are there: its parameters and state are read and written once.
template <class Rule>
void register_step(const char* name, Rule (*make)(), bool small) {
  benchmark::RegisterBenchmark((std::string(name) + (small ? " step/small" : " step/large")).c_str(),
                               [=](benchmark::State& state) {
                                 const std::int64_t width = small ? 5 : 2048;
                                 nn::Linear model(width, width);
                                 Rule rule = make();
                                 const Tensor x = numbers({1, width});
                                 const std::function<void()> once = [&] {
                                   const Gradients g = backward(sum(model(x)));
                                   rule.step(model, g);
                                   eval({model.weight, model.bias});
                                 };
                                 for (auto _ : state) once();
                                 report(state, static_cast<double>(width * width), once);
                               })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const bool small : {true, false}) {
    for (const Part& part : parts()) {
      for (const bool with_gradients : {false, true}) register_part(part, with_gradients, small);
    }
    register_step<Sgd>(
        "sgd momentum", [] { return Sgd({.lr = 0.01, .momentum = 0.9}); }, small);
    register_step<AdamW>(
        "adamw", [] { return AdamW({.lr = 1e-3}); }, small);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
