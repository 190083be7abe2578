// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ebb/ebb.h"
#include "ebb/io.h"
#include "io/sample_tensors.h"
#include "scratch_folder.h"

// Laws that hold for all inputs, tried with random ones; RapidCheck minimises failures. RC_PARAMS=max_success=10000
// tries more.
namespace ebb {
namespace {

Tensor random_tensor(const Shape& shape, DType dtype = DType::f32) {
  manual_seed(static_cast<std::uint64_t>(*rc::gen::inRange(0, 1 << 20)));
  return cast(rand(shape) * 2 - 1, dtype).eval();
}

Shape any_shape(int most_rank = 3) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(*rc::gen::inRange(0, most_rank + 1)));
  for (std::int64_t& size : sizes) size = *rc::gen::element<std::int64_t>(1, 2, 3, 5, 17, 0);
  return Shape(sizes);
}

// The same with some axes of size 1, and perhaps without the first ones: it broadcasts to `shape`.
Shape narrower(const Shape& shape) {
  std::vector<std::int64_t> sizes(shape.begin() + *rc::gen::inRange(0, shape.rank() + 1), shape.end());
  for (std::int64_t& size : sizes) {
    if (*rc::gen::arbitrary<bool>()) size = 1;
  }
  return Shape(sizes);
}

// A smooth elementwise function of one or two tensors.
using Formula = std::function<Tensor(const Tensor&)>;
Formula any_formula() {
  static const std::vector<Formula> kFormulas = {
      [](const Tensor& x) { return x * x + 0.5; },         [](const Tensor& x) { return tanh(x) - x; },
      [](const Tensor& x) { return exp(x * 0.5); },        [](const Tensor& x) { return sin(x) * x; },
      [](const Tensor& x) { return softplus(x) / 2; },     [](const Tensor& x) { return gelu(x) + cos(x); },
      [](const Tensor& x) { return sqrt(square(x) + 1); }, [](const Tensor& x) { return x / (1 + square(x)); }};
  std::vector<Formula> chain;
  const int length = *rc::gen::inRange(1, 6);
  for (int k = 0; k < length; ++k) chain.push_back(kFormulas[*rc::gen::inRange<std::size_t>(0, kFormulas.size())]);
  return [chain](const Tensor& x) {
    Tensor y = x;
    for (const Formula& f : chain) y = f(y);
    return y;
  };
}

bool near(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.shape() != b.shape()) return false;
  const std::vector<double> p = a.to_vector(), q = b.to_vector();
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (std::fabs(p[i] - q[i]) > tolerance * (1 + std::fabs(q[i]))) return false;
  }
  return true;
}

void law(const char* text, const std::function<void()>& test) { EXPECT_TRUE(rc::check(text, test)); }

TEST(Laws, GradIsLinear) {
  law("grad(a·f + b·g) = a·grad f + b·grad g", [] {
    const Formula f = any_formula(), g = any_formula();
    const double a = *rc::gen::inRange(-3, 4), b = *rc::gen::inRange(-3, 4);
    const Tensor x = random_tensor(any_shape(), DType::f64);
    const auto of = [&](const Function& h) { return grad(h)(x); };
    const Tensor both = of([&](const Tensor& v) { return sum(a * f(v) + b * g(v)); });
    const Tensor apart =
        a * of([&](const Tensor& v) { return sum(f(v)); }) + b * of([&](const Tensor& v) { return sum(g(v)); });
    RC_ASSERT(near(both, apart, 1e-11));
  });
}

TEST(Laws, GradientsOfBroadcastOperandsAreSums) {
  law("d/dx of f(x, y) is that of f(expand(x), y), summed", [] {
    const Shape shape = any_shape();
    const Tensor y = random_tensor(shape, DType::f64), x = random_tensor(narrower(shape), DType::f64);
    const Formula f = any_formula();
    const Tensor direct = grad(Function([&](const Tensor& v) { return sum(f(v * y + v)); }))(x);
    const Tensor wide = expand(x, shape);
    Tensor summed = grad(Function([&](const Tensor& v) { return sum(f(v * y + v)); }))(wide);
    while (summed.rank() > x.rank()) summed = sum(summed, 0);
    for (int d = 0; d < x.rank(); ++d) {
      if (x.shape()[d] != summed.shape()[d]) summed = sum(summed, d, true);
    }
    RC_ASSERT(near(direct, summed, 1e-11));
  });
}

TEST(Laws, CheckpointsChangeNoBit) {
  law("gradients through checkpoint(f) are those through f", [] {
    const Formula f = any_formula(), g = any_formula();
    const Tensor x = random_tensor(any_shape());
    const auto gradient = [&](bool checkpointed) {
      const Tensor v = variable(x);
      const Tensor inner = checkpointed ? checkpoint(Function(f), v) : f(v);
      return backward(sum(g(inner)))[v];
    };
    RC_ASSERT(same(gradient(true), gradient(false)));
  });
}

TEST(Laws, SavingAndLoadingIsTheIdentity) {
  const ScratchFolder folder;
  law("load(save(x)) = x", [&] {
    io::TensorMap tensors;
    const int count = *rc::gen::inRange(0, 5);
    for (int k = 0; k < count; ++k) {
      const std::string name = *rc::gen::string<std::string>() + std::to_string(k);
      bool ascii = true;
      for (const char c : name) ascii &= static_cast<signed char>(c) > 0;
      if (!ascii) continue;  // names are UTF-8
      tensors[name] = random_bits(*rc::gen::elementOf(kAllDTypes), any_shape(), static_cast<std::uint64_t>(k));
    }
    const auto check = [&](const io::TensorMap& back) {
      RC_ASSERT(back.size() == tensors.size());
      for (const auto& [name, tensor] : tensors) RC_ASSERT(same(back.at(name), tensor));
    };
    io::save_safetensors(folder / "a.safetensors", tensors, {{"note", "text"}});
    check(io::Safetensors(folder / "a.safetensors").tensors());
    io::save_npz(folder / "a.npz", tensors, {.compress = *rc::gen::arbitrary<bool>()});
    check(io::load_npz(folder / "a.npz"));
    const auto step = *rc::gen::arbitrary<std::int64_t>();
    io::save_checkpoint(folder / "a.ckpt", {.parameters = tensors, .step = step}, {.keep_previous = true});
    const io::Checkpoint c = io::load_checkpoint(folder / "a.ckpt");
    RC_ASSERT(c.step == step);
    check(c.parameters);
  });
}

TEST(Laws, FusionChangesNoBitOfElementwiseOperations) {
  law("a chain computed at once is the chain computed step by step", [] {
    const Formula f = any_formula();
    const DType dtype = *rc::gen::element(DType::f32, DType::f16, DType::bf16, DType::f64);
    const Tensor x = random_tensor(any_shape(), dtype);
    const Tensor fused = f(x).eval();
    const Eager step_by_step;
    RC_ASSERT(same(f(x), fused));
  });
}

TEST(Laws, CompiledFunctionsAreThePlainOnes) {
  law("compile(f)(x) = f(x), also for the second x", [] {
    const Formula f = any_formula();
    const Function plain = [&](const Tensor& x) { return sum(f(x) * x) + f(x); };
    const Function compiled = compile(plain);
    const Shape shape = any_shape();
    for (int k = 0; k < 2; ++k) {
      const Tensor x = random_tensor(shape);
      RC_ASSERT(same(compiled(x), plain(x)));
    }
  });
}

TEST(Laws, ShapesNeverOverflow) {
  law("a shape is refused or has an exact number of elements", [] {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(*rc::gen::inRange(0, 9)));
    for (std::int64_t& size : sizes)
      size = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(-1, 5), rc::gen::arbitrary<std::int64_t>(),
                             rc::gen::map(rc::gen::inRange(0, 63), [](int k) { return std::int64_t{1} << k; }));
    try {
      const Shape shape(sizes);
      __int128 product = 1;
      for (const std::int64_t size : sizes) product *= size;
      RC_ASSERT(product == shape.numel());
    } catch (const Error&) {
    }
  });
}

}  // namespace
}  // namespace ebb
