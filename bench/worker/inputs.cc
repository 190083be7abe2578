// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <random>

#include "worker/cases.h"

namespace bench {
namespace {

using namespace ebb;

constexpr const char* kSizes[] = {"tiny", "small", "medium", "large"};

// Rows of up to three distinct classes, then −1 to the end.
Tensor some_labels(const Shape& shape, std::int64_t classes) {
  std::mt19937_64 rng(7);
  std::vector<std::int64_t> all(static_cast<std::size_t>(shape.numel()), -1);
  const std::int64_t columns = shape[1];
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const auto start = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(classes));
    for (std::int64_t k = 0; k < std::min<std::int64_t>(3, columns); ++k) {
      all[static_cast<std::size_t>(row * columns + k)] = (start + k * 2 + 1) % classes;
    }
  }
  return from_data(all, shape);
}

Tensor draw(const Input& input, DType dtype) {
  const Shape& shape = input.shape;
  const DType made = dtype == DType::f64 ? DType::f64 : DType::f32;
  switch (input.kind) {
    case Kind::normal:
      return cast(randn(shape, made), dtype);
    case Kind::around:
      return cast(static_cast<double>(input.limit) + randn(shape, made), dtype);
    case Kind::weights:
      return cast(0.05 * randn(shape, made), dtype);
    case Kind::fan_in: {
      const double fan = static_cast<double>(shape.numel()) / static_cast<double>(shape[0]);
      return cast(1 / std::sqrt(fan) * randn(shape, made), dtype);
    }
    case Kind::ones:
      return ones(shape, dtype);
    case Kind::zeros:
      return zeros(shape, dtype);
    case Kind::uniform:
      return cast(0.05 + 0.9 * rand(shape, made), dtype);
    case Kind::positive:
      return cast(0.5 + 1.5 * rand(shape, made), dtype);
    case Kind::sign:
      return cast(2 * bernoulli(shape, 0.5) - 1, dtype);
    case Kind::binary:
      return cast(bernoulli(shape, 0.5), dtype);
    case Kind::mask:
      return cast(bernoulli(shape, 0.5), DType::bool_);
    case Kind::classes:
      return randint(0, input.limit, shape);
    case Kind::labels:
      return randint(1, input.limit, shape);
    case Kind::length:
      return full(shape, input.limit, DType::i64);
    case Kind::some_labels:
      return some_labels(shape, input.limit);
    case Kind::probs:
      return cast(softmax(randn(shape, made)), dtype);
    case Kind::log_probs:
      return cast(log_softmax(randn(shape, made)), dtype);
  }
  throw Error("bench: an input of no known kind");
}

}  // namespace

const char* name(Size size) { return kSizes[static_cast<int>(size)]; }

Shape elements(Size size) {
  constexpr std::int64_t kElements[] = {37, 1 << 10, 1 << 18, 1 << 24};
  return {kElements[static_cast<int>(size)]};
}
Shape rows(Size size) {
  constexpr std::int64_t kRows[][2] = {{3, 7}, {16, 64}, {512, 512}, {4096, 4096}};
  const auto& [n, columns] = kRows[static_cast<int>(size)];
  return {n, columns};
}

Size size_from_name(const std::string& name) {
  for (int k = 0; k < 4; ++k) {
    if (name == kSizes[k]) return static_cast<Size>(k);
  }
  throw Error("bench: '" + name + "' is not tiny, small, medium or large");
}

Tensors make_inputs(const std::vector<Input>& inputs, DType dtype) {
  manual_seed(20240229);
  Tensors tensors;
  for (const Input& input : inputs) tensors.push_back(contiguous(draw(input, dtype)).eval());
  return tensors;
}

Tensors build(const Case& c, const std::vector<Input>& inputs, const Tensors& tensors, bool with_gradient) {
  Tensors results;
  if (c.compute) {
    results = c.compute(tensors);
  } else if (!with_gradient) {
    results = {c.loss(tensors)};
  } else {
    Tensors arguments = tensors;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].differentiate) arguments[k] = variable(tensors[k]);
    }
    const Tensor loss = c.loss(arguments);
    const Gradients gradients = backward(loss);
    results = {loss};
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].differentiate) results.push_back(gradients[arguments[k]]);
    }
  }
  return results;
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (auto suite :
         {engine_cases, product_cases, loss_cases, custom_cases, linear_cases, autograd_cases, train_cases}) {
      for (Case& c : suite()) all.push_back(std::move(c));
    }
    return all;
  }();
  return cases;
}

const Case& find_case(const std::string& suite, const std::string& name) {
  for (const Case& c : all_cases()) {
    if (c.suite == suite && c.name == name) return c;
  }
  throw Error("bench: there is no case '" + name + "' in the suite '" + suite + "'");
}

}  // namespace bench
