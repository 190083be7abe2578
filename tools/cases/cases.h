// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cases/array.h"
#include "graph/op_table.h"

namespace ebb::table {

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;
using Domain = std::vector<std::pair<double, double>>;  // intervals that avoid kinks and poles

struct Input {
  enum class Kind { real, index, mask };
  Domain domain{{-2, 2}};
  Kind kind = Kind::real;
  std::size_t index_axis = 0;  // index: below the size of this axis of input 0 (or of the target, see index_size)
  std::int64_t index_size = -1;
  bool nonzero = false;  // integers: a divisor
};

// One way to call one operation of the table.
struct Case {
  Op op;
  std::string name;
  std::vector<Input> inputs;
  std::vector<std::vector<Index>> shapes;  // of the inputs; gradients are checked for the first of them
  std::vector<Index> large;                // shapes large enough to be shared among threads
  std::function<Tensor(const Tensors&)> call;
  std::function<Array(const Arrays&)> reference;
  bool integers = false;  // works on i64, i32 and u8 too
  bool halves = true;     // computed for f16 and bf16 as well
  // The tolerance of values is a rounding of the value itself; or, where the value is a sum of products of its inputs
  // that may cancel, a rounding of the same sum of their magnitudes.
  bool sums_products = false;
  double loose = 1;  // times this
  double loose_gradient = 1;
  double loose_narrow = 1;    // an extra factor for f32, f16 and bf16 gradients only
  bool kink_at_ties = false;  // equal elements have no slope
};

// ---- elementwise cases: a formula of numbers ------------------------------------------------------------------------

// All inputs of one shape: one element, odd lengths, more than a block, nothing, rows; and two that broadcast.
inline std::vector<std::vector<Index>> elementwise_shapes(std::size_t inputs) {
  std::vector<std::vector<Index>> sets;
  for (const Index& s :
       {Index{7}, Index{3, 4}, Index{}, Index{1}, Index{33}, Index{1025}, Index{0}, Index{3, 0, 2}, Index{2, 3, 5}}) {
    sets.emplace_back(inputs, s);
  }
  if (inputs >= 2) {
    std::vector<Index> mixed{{5, 1}, {7}};
    while (mixed.size() < inputs) mixed.push_back({3, 1, 1});
    sets.push_back(mixed);
  }
  return sets;
}

inline Index broadcast(const Arrays& x) {
  std::size_t rank = 0;
  for (const Array& a : x) rank = std::max(rank, a.shape.size());
  Index out(rank, 1);
  for (const Array& a : x) {
    for (std::size_t d = 0; d < a.shape.size(); ++d) {
      std::int64_t& size = out[d + rank - a.shape.size()];
      if (size == 1) size = a.shape[d];
    }
  }
  return out;
}

template <class F>
Array elementwise(const Arrays& x, F f) {
  Array out(broadcast(x));
  std::size_t k = 0;
  each_index(out.shape, [&](const Index& i) {
    double v[3] = {};
    for (std::size_t j = 0; j < x.size(); ++j) v[j] = x[j].at(i);
    out.values[k++] = f(v);
  });
  return out;
}

inline Case unary(Op op, std::string name, Tensor (*call)(const Tensor&), double (*f)(double), Domain domain) {
  Case c;
  c.op = op;
  c.name = std::move(name);
  c.inputs = {{std::move(domain)}};
  c.shapes = elementwise_shapes(1);
  c.large = {{70001, 3}};
  c.call = [call](const Tensors& x) { return call(x[0]); };
  c.reference = [f](const Arrays& x) { return elementwise(x, [f](const double* v) { return f(v[0]); }); };
  return c;
}

inline Case binary(Op op, std::string name, Tensor (*call)(const Tensor&, const Tensor&), double (*f)(double, double),
                   Domain a, Domain b) {
  Case c;
  c.op = op;
  c.name = std::move(name);
  c.inputs = {{std::move(a)}, {std::move(b)}};
  c.shapes = elementwise_shapes(2);
  c.large = {{70001, 3}, {70001, 3}};
  c.call = [call](const Tensors& x) { return call(x[0], x[1]); };
  c.reference = [f](const Arrays& x) { return elementwise(x, [f](const double* v) { return f(v[0], v[1]); }); };
  return c;
}

inline Case on_integers(Case c, bool nonzero_second = false) {
  c.integers = true;
  if (nonzero_second) c.inputs[1].nonzero = true;
  return c;
}
inline Case looser(double factor, Case c) {
  c.loose = factor;
  return c;
}

std::vector<Case> elementwise_cases();
std::vector<Case> activation_cases();
std::vector<Case> tensor_cases();
std::vector<Case> window_cases();
std::vector<Case> grid_sample_cases();
std::vector<Case> distance_cases();
std::vector<Case> channel_norm_cases();
std::vector<Case> attention_cases();

}  // namespace ebb::table
