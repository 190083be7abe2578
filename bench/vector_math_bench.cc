// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cpu/tile/kernels.h"

// Time of an element of a tile hot in L1, for every function, type and target, and how many times faster that is than a
// loop over the C library's function measured beside it ("speedup").
namespace {

using namespace ebb;
using namespace ebb::cpu;

constexpr std::size_t kTile = 1024;

struct Function {
  Op op;
  double (*f64)(double);
  float (*f32)(float);
};
#define EBB_FUNCTION(name)                                                                \
  Function {                                                                              \
    Op::name, [](double x) { return std::name(x); }, [](float x) { return std::name(x); } \
  }
const Function kFunctions[] = {
    EBB_FUNCTION(exp),   EBB_FUNCTION(exp2),  EBB_FUNCTION(expm1), EBB_FUNCTION(log),   EBB_FUNCTION(log2),
    EBB_FUNCTION(log10), EBB_FUNCTION(log1p), EBB_FUNCTION(tanh),  EBB_FUNCTION(erf),   EBB_FUNCTION(erfc),
    EBB_FUNCTION(sin),   EBB_FUNCTION(cos),   EBB_FUNCTION(tan),   EBB_FUNCTION(asin),  EBB_FUNCTION(acos),
    EBB_FUNCTION(atan),  EBB_FUNCTION(sinh),  EBB_FUNCTION(cosh),  EBB_FUNCTION(asinh), EBB_FUNCTION(atanh),
    EBB_FUNCTION(cbrt),  EBB_FUNCTION(sqrt),
};
#undef EBB_FUNCTION

template <class T>
std::vector<T> inputs() {
  std::mt19937 rng(1);
  std::uniform_real_distribution<double> even(0.05, 0.95);
  std::vector<T> x(kTile);
  for (T& v : x) v = static_cast<T>(even(rng));
  return x;
}

template <class Body>
double nanoseconds(Body body) {
  double best = HUGE_VAL;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return best / kTile;
}

template <class T, class Scalar>
void run(benchmark::State& state, const TileKernels* kernels, Op op, RegType type, Scalar scalar) {
  const std::vector<T> x = inputs<T>(), y = inputs<T>();
  std::vector<T> out(kTile);
  const ElementwiseFn fn = kernels->elementwise(op, type, 0);
  const double library = nanoseconds([&] {
    for (std::size_t i = 0; i < kTile; ++i) out[i] = scalar(x[i], y[i]);
    benchmark::ClobberMemory();
  });
  const auto tile = [&] {
    fn(out.data(), x.data(), y.data(), nullptr, kTile);
    benchmark::ClobberMemory();
  };
  for (auto _ : state) tile();
  const double ns = nanoseconds(tile);
  state.counters["ns/element"] = ns;
  state.counters["libm ns"] = library;
  state.counters["speedup"] = library / ns;
}

template <class T, class Scalar>
void add(const TileKernels* kernels, Op op, RegType type, Scalar scalar) {
  const std::string label = std::string(info(op).name) + (sizeof(T) == 4 ? "/f32/" : "/f64/") + kernels->target;
  benchmark::RegisterBenchmark(label.c_str(), [=](benchmark::State& s) { run<T>(s, kernels, op, type, scalar); });
}

}  // namespace

int main(int argc, char** argv) {
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const TileKernels* k = targets.begin_[t];
    for (const Function& f : kFunctions) {
      add<float>(k, f.op, RegType::f32, [fn = f.f32](float x, float) { return fn(x); });
      add<double>(k, f.op, RegType::f64, [fn = f.f64](double x, double) { return fn(x); });
    }
    add<float>(k, Op::pow, RegType::f32, [](float x, float y) { return std::pow(x, y); });
    add<double>(k, Op::pow, RegType::f64, [](double x, double y) { return std::pow(x, y); });
    add<float>(k, Op::atan2, RegType::f32, [](float x, float y) { return std::atan2(x, y); });
    add<double>(k, Op::atan2, RegType::f64, [](double x, double y) { return std::atan2(x, y); });
    add<float>(k, Op::remainder, RegType::f32, [](float x, float y) { return std::fmod(x, y); });
    add<double>(k, Op::remainder, RegType::f64, [](double x, double y) { return std::fmod(x, y); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
