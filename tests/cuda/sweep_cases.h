// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "graph/node.h"
#include "ops/build.h"
#include "schedule/plan.h"
#include "schedule/trace.h"

// Sweeps of expressions, with their arguments bound: the test cases for printed kernels.
namespace ebb::testing {

inline double number_at(DType dtype, const std::byte* data, std::size_t i) {
  const auto read = [&](auto zero) {
    std::memcpy(&zero, data + i * sizeof zero, sizeof zero);
    return zero;
  };
  switch (dtype) {
    case DType::f64:
      return read(double{});
    case DType::f32:
      return read(float{});
    case DType::f16:
      return to_float(read(Half{}));
    case DType::bf16:
      return to_float(read(BFloat16{}));
    case DType::i64:
      return static_cast<double>(read(std::int64_t{}));
    case DType::i32:
      return read(std::int32_t{});
    default:
      return read(std::uint8_t{});
  }
}

// Tolerance of a device's sweep relative to the oracle, which computes in f64 throughout.
inline double sweep_tolerance(DType d) {
  return d == DType::f64 ? 1e-11 : d == DType::f32 ? 2e-5 : d == DType::f16 ? 4e-3 : d == DType::bf16 ? 3e-2 : 0;
}

// A case with its plan. Steps run in order; each reads what the oracle wrote for earlier ones.
struct SweepCase {
  std::string name;
  OwnedTrace owned;
  Plan plan;
  std::map<std::int32_t, std::vector<std::byte>> memory;

  const Value& value(std::int32_t v) const { return plan.graph.values[static_cast<std::size_t>(v)]; }

  std::vector<std::byte> room(std::int32_t v) const {
    return std::vector<std::byte>(static_cast<std::size_t>(value(v).shape.numel()) * size_of(value(v).dtype) + 16,
                                  std::byte{0x5A});
  }
  Argument input(std::int32_t v) {
    const Value& x = value(v);
    Argument a;
    if (x.op == Op::constant && x.node < 0) {
      a.real = x.literal;
      a.integer = static_cast<std::int64_t>(x.literal);
    } else if (x.is_leaf) {
      const Node& n = *owned.trace.nodes[static_cast<std::size_t>(x.node)];
      a.real = n.payload.real;
      a.integer = n.payload.integer;
      a.step = n.payload.step;
      a.seed = n.payload.seed;
      a.operation = n.payload.operation;
      if (x.op == Op::data && n.storage.buffer)
        a.data = n.storage.buffer.data() + n.storage.offset * static_cast<std::int64_t>(size_of(x.dtype));
    } else {
      a.data = memory.at(v).data();
    }
    return a;
  }
};

inline std::unique_ptr<SweepCase> make_case(const std::string& name, const std::vector<Tensor>& roots) {
  auto c = std::make_unique<SweepCase>();
  c->name = name;
  c->owned = trace_of(roots);
  if (c->owned.trace.roots.empty()) return nullptr;
  c->plan = make_plan(c->owned.trace);
  return c;
}

// Rows of up to 2048 elements are processed by a warp or a part of one; longer ones have several segments and a block.
inline std::vector<std::unique_ptr<SweepCase>> sweep_cases() {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto add = [&](const std::string& name, const std::vector<Tensor>& roots) {
    if (auto c = make_case(name, roots)) cases.push_back(std::move(c));
  };
  manual_seed(7);
  using Unary = Tensor (*)(const Tensor&);
  const std::vector<std::pair<const char*, Unary>> unary{
      {"neg", neg},
      {"reciprocal", reciprocal},
      {"square", square},
      {"abs", abs},
      {"sign", sign},
      {"exp", exp},
      {"exp2", exp2},
      {"expm1", expm1},
      {"log", log},
      {"log2", log2},
      {"log10", log10},
      {"log1p", log1p},
      {"log1p_unit", [](const Tensor& x) { return log1p_unit(exp(-abs(x))); }},
      {"sqrt", sqrt},
      {"rsqrt", rsqrt},
      {"cbrt", cbrt},
      {"sin", sin},
      {"cos", cos},
      {"tan", tan},
      {"asin", asin},
      {"acos", acos},
      {"atan", atan},
      {"sinh", sinh},
      {"cosh", cosh},
      {"tanh", tanh},
      {"asinh", asinh},
      {"acosh", acosh},
      {"atanh", atanh},
      {"erf", erf},
      {"erfc", erfc},
      {"lgamma", lgamma},
      {"digamma", digamma},
      {"floor", floor},
      {"ceil", ceil},
      {"round", round},
      {"trunc", trunc},
      {"isnan", isnan},
      {"isinf", isinf},
      {"isfinite", isfinite},
      {"logical_not", logical_not}};
  using Binary = Tensor (*)(TensorOrScalar, TensorOrScalar);
  const std::vector<std::pair<const char*, Binary>> binary{{"add", ebb::add},
                                                           {"sub", sub},
                                                           {"mul", mul},
                                                           {"div", div},
                                                           {"pow", pow},
                                                           {"floor_divide", floor_divide},
                                                           {"remainder", remainder},
                                                           {"maximum", maximum},
                                                           {"minimum", minimum},
                                                           {"atan2", atan2},
                                                           {"hypot", hypot},
                                                           {"eq", eq},
                                                           {"ne", ne},
                                                           {"lt", lt},
                                                           {"le", le},
                                                           {"gt", gt},
                                                           {"ge", ge}};
  const std::vector<double> edges{0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -2.5, 3, 1e-3, INFINITY, -INFINITY, NAN, 7, -7};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const std::string of = " " + std::string(ebb::name(dtype));
    const Tensor numbers = (randn({40}) * 2).eval();
    std::vector<double> all = edges;
    for (const double x : numbers.to_vector<double>()) all.push_back(x);
    const Tensor x = tensor_from(all, {static_cast<std::int64_t>(all.size())}, dtype).eval();
    std::vector<Tensor> ys;
    for (const auto& [name, f] : unary) add(name + of, {f(x)});
    const Tensor a = tensor_from(all, {static_cast<std::int64_t>(all.size()), 1}, dtype).eval();
    const Tensor b = tensor_from(all, {static_cast<std::int64_t>(all.size())}, dtype).eval();
    for (const auto& [name, f] : binary) add(name + of, {f(a, b)});
    add("where" + of, {where(a > b, a, b)});
    add("fma" + of, {fma(a, b, a)});
    add("polygamma" + of, {polygamma(2, abs(x) + 0.25)});
    const Tensor poles = tensor_from(edges, {static_cast<std::int64_t>(edges.size())}, dtype).eval();
    for (const int n : {1, 2, 3}) add(fmt::format("polygamma {} at its poles{}", n, of), {polygamma(n, poles)});
    for (const DType to : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::bool_})
      add("cast to " + std::string(ebb::name(to)) + of, {cast(x, to)});
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const std::string of = " " + std::string(ebb::name(dtype));
    std::vector<std::int64_t> whole{0, 1, 2, 3, 7, 100, 255};
    if (dtype != DType::u8) whole.insert(whole.end(), {-1, -2, -3, -7, -100, 2147483647, -2147483648ll});
    const auto n = static_cast<std::int64_t>(whole.size());
    const Tensor a = tensor_from(whole, {n, 1}, dtype).eval(), b = tensor_from(whole, {n}, dtype).eval();
    for (const auto& [name, f] : binary) {
      const std::string op = name;
      if (op != "atan2" && op != "hypot" && op != "pow") add(op + of, {f(a, b)});
    }
    add("pow" + of, {pow(a, clamp(b, 0, 9))});
    for (const auto& [name, f] : unary) {
      const std::string op = name;
      if (op == "neg" || op == "square" || op == "abs" || op == "sign" || op == "floor") add(op + of, {f(b)});
    }
    add("where" + of, {where(a < b, a, b)});
    add("sum" + of, {sum(a - b, 0), sum(a * b), sum(b)});
    for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::bool_})
      add("cast to " + std::string(ebb::name(to)) + of, {cast(a, to)});
  }
  {
    const Tensor p = tensor({true, true, false, false}).eval(), q = tensor({true, false, true, false}).eval();
    add("logic", {logical_and(p, q), logical_or(p, q), logical_xor(p, q), logical_not(p), where(p, p, q)});
    add("bool sums", {any(p), all(p), sum(p)});
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const Tensor a = cast(tensor({-9.0, 77.0, 3.0, 200.0, -1.0}), dtype).eval();
    const Tensor b = cast(tensor({0.0, 5.0, 31.0, 7.0, 64.0}), dtype).eval();
    add("bits of " + std::string(ebb::name(dtype)),
        {bitwise_and(a, b), bitwise_or(a, b), bitwise_xor(a, b), bitwise_left_shift(a, b), bitwise_right_shift(a, b)});
  }
  // Strides: transposed, sliced with a step, backwards, broadcast, three dimensions that do not merge.
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const std::string of = " " + std::string(ebb::name(dtype));
    const Tensor x = cast(randn({6, 5, 7}), dtype).eval(), y = cast(randn({7, 5}), dtype).eval();
    add("permuted" + of, {permute(x, {2, 0, 1}) + 1, permute(x, {1, 2, 0}) * reshape(transpose(y, 0, 1), {5, 7, 1})});
    add("stepped" + of, {exp(x.slice(2, 0, 7, 2)) + x.slice(2, 0, 7, 2)});
    add("backwards" + of, {flip(x, {1}) + x});
    add("middle" + of, {softmax(x, 1)});
    add("first" + of, {softmax(x, 0)});
    add("outer and inner" + of, {sum(x, {0, 2})});
    add("column sums" + of, {sum(x, 0), mean(x, 0), max(x, 0)});
    add("to scalar" + of, {sum(x), mean(square(x)), max(x), min(x), prod(x * 0.1 + 1)});
  }
  {
    // More segments than a group has; and sums over rows that are too long to be kept on chip.
    const Tensor x = randn({1, 2'100'001}).eval(), wide = randn({3, 70'001}).eval();
    add("long row", {x / sum(abs(x), 1, true)});
    // Rows that are on chip in part, with something placed in them; and maxima of halves, in pairs.
    const Tensor halves = variable(randn({3, 120000}, DType::bf16).eval()), labels = randint(0, 120000, {3}).eval();
    const Tensor loss = cross_entropy(halves, labels);
    add("row that does not fit on chip", {loss, backward(loss)[halves]});
    const Tensor smoothed = cross_entropy(halves * 9, labels, {.label_smoothing = 0.1});
    add("smoothed row that does not fit on chip", {smoothed, backward(smoothed)[halves]});
    add("maxima of f16", {max(randn({5, 2056}, DType::f16).eval(), 1)});
    add("maxima of an odd number of halves", {max(randn({5, 2057}, DType::bf16).eval(), 1)});
    add("sums over long rows", {sum(wide - max(wide, 1, true), 0), sum(wide, 1)});
    const Tensor longer = randn({2, 2'100'001}).eval();
    add("sums over rows of more segments than a group", {sum(longer - max(longer, 1, true), 0)});
    // Last segments with leaves that all lanes have, that some have, and without; more rows than a chunk of sums.
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const std::int64_t columns : {2601, 2816, 4096}) {
        const Tensor y = variable(randn({70, columns}, dtype).eval()), w = variable(randn({columns}, dtype).eval());
        const Tensor b = variable(randn({columns}, dtype).eval());
        const Gradients g = backward(layer_norm(y, {columns}, w, b), {.grad = randn({70, columns}, dtype).eval()});
        add("gradient of a layer norm " + std::string(ebb::name(dtype)) + " " + std::to_string(columns),
            {g[y], g[w], g[b]});
      }
    }
  }
  // Rows and totals of all lengths.
  for (const std::int64_t columns : {1, 7, 8, 37, 256, 1024, 2048, 2049, 5000, 8193, 40011}) {
    const std::int64_t rows = columns > 1024 ? 3 : 11;
    const std::string of = " " + std::to_string(columns);
    const Tensor x = randn({rows, columns}).eval();
    add("row sum" + of, {sum(x, 1)});
    add("row max and min" + of, {max(x, 1), min(x, 1)});
    add("total" + of, {sum(x), mean(x)});
    add("softmax" + of, {softmax(x, 1), log_softmax(x, 1)});
    add("layer norm" + of, {layer_norm(x, {columns})});
    const Tensor target = randint(0, columns, {rows}).eval();
    const Tensor v = variable(x);
    const Tensor loss = cross_entropy(v, target);
    add("cross entropy" + of, {loss, backward(loss)[v]});
    const Tensor half = cast(x, DType::bf16).eval(), hv = variable(half), half_loss = cross_entropy(hv, target);
    add("cross entropy bf16" + of, {half_loss, backward(half_loss)[hv]});
    const Tensor u = variable(x), d = mse_loss(u, x * 0.5);
    add("mse" + of, {d, backward(d)[u]});
    const Tensor bias = randn({columns}).eval(), w = variable(bias), y = sum(square(tanh(x + w)));
    add("bias" + of, {y, backward(y)[w]});
  }
  // Passes that leave values on chip for later ones.
  for (const std::int64_t columns : {37, 2048, 4096, 5003}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const std::string of = " " + std::string(ebb::name(dtype)) + " " + std::to_string(columns);
      const Tensor x = variable(cast(randn({3, columns}), dtype).eval()),
                   y = variable(cast(randn({3, columns}), dtype).eval());
      const Tensor far = cosine_similarity_loss(x, y);
      const Gradients of_far = backward(far);
      add("cosine" + of, {far, of_far[x], of_far[y]});
      const Tensor d = x - y, a = abs(d), terms = where(a <= 1, 0.5 * d * d, a - 0.5);
      const Tensor hard = mean(sum(softmax(a / 0.5, -1) * terms, -1));
      add("terms weighed by their size" + of, {hard, backward(hard)[x]});
    }
  }
  add("many rows", {sum(randn({700, 3}).eval(), 1), softmax(randn({700, 3}).eval(), 1)});
  // More terms than one block adds at the end.
  const Tensor many = variable(randn({40'000, 3}).eval()), chosen = randint(0, 3, {40'000}).eval();
  const Tensor of_many = cross_entropy(many, chosen);
  add("total of many rows", {of_many, backward(of_many)[many], sum(max(many, 1))});
  add("column sums of many rows", {sum(randn({2500, 5}).eval(), 0)});
  add("random", {rand({1000}), randn({33, 5}), rand({100}, DType::f64), bernoulli({50}, 0.3)});
  add("ramps", {arange(100) * 3, cast(arange(20), DType::f32), linspace(0, 1, 11)});
  add("dropout", {dropout(randn({500}).eval(), 0.4)});
  add("empty", {sum(zeros({0, 4}) + randn({0, 4}).eval(), 0), sum(randn({4, 0}).eval(), 1), exp(randn({0}).eval()),
                sum(randn({0}).eval())});
  add("gelu and others", {gelu(randn({300}).eval()), silu(randn({300}).eval()), softplus(randn({300}).eval())});
  return cases;
}

// With more sums of segments than a text's static memory has room for: they are stored after the row.
inline std::vector<std::unique_ptr<SweepCase>> cases_of_many_reductions() {
  manual_seed(17);
  const Tensor x = rand({2, 270'001}).eval(), y = rand({2, 270'001}).eval();
  const auto mean_of = [](const Tensor& v) { return mean(v, 1, true); };
  const Tensor five = x * mean_of(x) * mean_of(x * x) * mean_of(x * y) + y * max(x, 1, true) * min(y, 1, true);
  std::vector<std::unique_ptr<SweepCase>> cases;
  cases.push_back(make_case("five reductions", {five}));
  cases.push_back(make_case("two of a softmax", {softmax(x, 1) * softmax(y, 1) * 1e6}));
  // Rows on chip leave room for them.
  const Tensor z = rand({2, 50'000}).eval();
  Tensor ten = z;
  for (int k = 1; k <= 10; ++k) ten = ten * mean_of(maximum(z, k * 0.01));
  cases.push_back(make_case("ten reductions of a row on chip", {ten}));
  return cases;
}

}  // namespace ebb::testing
