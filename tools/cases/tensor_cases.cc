// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cases/cases.h"
#include "ops/index_nodes.h"
#include "ops/shape_nodes.h"

namespace ebb::table {

namespace {

using Line = std::vector<double>;

// An operation on lines along one axis: shapes with that axis in different places and of every awkward length.
Case on_lines(Op op, std::string name, std::size_t axis, Tensor (*call)(const Tensor&, int),
              std::function<Line(const Line&)> f, std::int64_t length, Domain domain = {{-2, 2}}) {
  Case c;
  c.op = op;
  c.name = std::move(name);
  c.inputs = {{std::move(domain)}};
  c.shapes = axis == 0
                 ? std::vector<std::vector<Index>>{{{5, 3}}, {{7}}, {{1}}, {{33, 4}}, {{1025, 2}}, {{4, 0}}}
                 : std::vector<std::vector<Index>>{{{3, 5}}, {{2, 7}}, {{4, 1}}, {{2, 33, 3}}, {{3, 1025}}, {{0, 4}}};
  c.large = axis == 0 ? std::vector<Index>{{7001, 30}} : std::vector<Index>{{31, 7001}};
  c.call = [call, axis](const Tensors& x) { return call(x[0], static_cast<int>(axis)); };
  c.reference = [f, axis, length](const Arrays& x) { return along(x[0], axis, length, f); };
  return c;
}

void add_reductions(std::vector<Case>& cases) {
  for (std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    const std::string at = axis == 0 ? "_rows" : "_columns";
    cases.push_back(on_integers(on_lines(
        Op::sum, "sum" + at, axis, [](const Tensor& t, int a) { return sum(t, a, true); },
        [](const Line& l) { return Line{std::accumulate(l.begin(), l.end(), 0.0)}; }, 1)));
    cases.push_back(on_lines(
        Op::prod, "prod" + at, axis, [](const Tensor& t, int a) { return prod(t, a, true); },
        [](const Line& l) { return Line{std::accumulate(l.begin(), l.end(), 1.0, std::multiplies<>())}; }, 1,
        {{0.97, 1.03}}));
    cases.push_back(on_integers(on_lines(
        Op::max, "max" + at, axis, [](const Tensor& t, int a) { return max(t, a, true); },
        [](const Line& l) { return Line{*std::max_element(l.begin(), l.end())}; }, 1)));
    cases.push_back(on_integers(on_lines(
        Op::min, "min" + at, axis, [](const Tensor& t, int a) { return min(t, a, true); },
        [](const Line& l) { return Line{*std::min_element(l.begin(), l.end())}; }, 1)));
    cases.push_back(on_integers(on_lines(
        Op::argmax, "argmax" + at, axis, [](const Tensor& t, int a) { return argmax(t, a, true); },
        [](const Line& l) { return Line{static_cast<double>(std::max_element(l.begin(), l.end()) - l.begin())}; }, 1)));
    cases.push_back(on_integers(on_lines(
        Op::argmin, "argmin" + at, axis, [](const Tensor& t, int a) { return argmin(t, a, true); },
        [](const Line& l) { return Line{static_cast<double>(std::min_element(l.begin(), l.end()) - l.begin())}; }, 1)));
    const auto so_far = [](bool largest) {
      return [largest](const Line& l) {
        Line places;
        for (std::size_t i = 0, best = 0; i < l.size(); ++i) {
          if (largest ? l[i] >= l[best] : l[i] <= l[best]) best = i;
          places.push_back(static_cast<double>(best));
        }
        return places;
      };
    };
    cases.push_back(on_integers(on_lines(
        Op::cummax_place, "cummax_place" + at, axis, [](const Tensor& t, int a) { return cummax(t, a).second; },
        so_far(true), -1)));
    cases.push_back(on_integers(on_lines(
        Op::cummin_place, "cummin_place" + at, axis, [](const Tensor& t, int a) { return cummin(t, a).second; },
        so_far(false), -1)));
    cases.push_back(on_integers(on_lines(
        Op::argsort, "argsort" + at, axis, [](const Tensor& t, int a) { return argsort(t, a); },
        [](const Line& l) {
          std::vector<std::size_t> order(l.size());
          std::iota(order.begin(), order.end(), std::size_t{0});
          std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return l[i] < l[j]; });
          return Line(order.begin(), order.end());
        },
        -1)));
    cases.push_back(on_integers(on_lines(
        Op::cumsum, "cumsum" + at, axis, [](const Tensor& t, int a) { return cumsum(t, a); },
        [](Line l) {
          std::partial_sum(l.begin(), l.end(), l.begin());
          return l;
        },
        -1)));
    cases.push_back(
        // One rounding per factor, of up to a thousand; those of a random walk.
        looser(30, on_lines(
                       Op::cumprod, "cumprod" + at, axis, [](const Tensor& t, int a) { return cumprod(t, a); },
                       [](Line l) {
                         std::partial_sum(l.begin(), l.end(), l.begin(), std::multiplies<>());
                         return l;
                       },
                       -1, {{0.97, 1.03}})));
    auto shifted = [](const Line& l) {
      const double top = *std::max_element(l.begin(), l.end());
      double total = 0;
      for (double v : l) total += std::exp(v - top);
      return std::make_pair(top, total);
    };
    cases.push_back(on_lines(
        Op::softmax, "softmax" + at, axis, [](const Tensor& t, int a) { return softmax(t, a); },
        [shifted](Line l) {
          const auto [top, total] = shifted(l);
          for (double& v : l) v = std::exp(v - top) / total;
          return l;
        },
        -1));
    cases.push_back(on_lines(
        Op::log_softmax, "log_softmax" + at, axis, [](const Tensor& t, int a) { return log_softmax(t, a); },
        [shifted](Line l) {
          const auto [top, total] = shifted(l);
          for (double& v : l) v = v - top - std::log(total);
          return l;
        },
        -1));
    cases.push_back(on_lines(
        Op::logsumexp, "logsumexp" + at, axis, [](const Tensor& t, int a) { return logsumexp(t, a, true); },
        [shifted](const Line& l) {
          const auto [top, total] = shifted(l);
          return Line{top + std::log(total)};
        },
        1));
  }
  for (Case& c : cases) {
    if (c.op == Op::sum || c.op == Op::cumsum) {
      c.sums_products = true;
      c.loose = 10;  // the formula adds one number after the other, with a rounding each
    }
    if (c.op == Op::prod) c.loose = 30;  // one rounding per factor
    if (c.op == Op::max || c.op == Op::min) c.kink_at_ties = true;
    // g − s·Σg, where s is taken from the rounded output and Σg is as long as the line: it cancels.
    if (c.op == Op::log_softmax) c.loose_narrow = 5;
  }
  auto over_last = [](Op op, const char* name, Tensor (*call)(const Tensor&), double (*centre)(const Line&)) {
    Case c;
    c.op = op;
    c.name = name;
    c.inputs = {{{{-2, 2}}}};
    c.shapes = {{{3, 5}}, {{7}}, {{4, 33}}, {{2, 1025}}, {{0, 4}}, {{2, 3, 7}}};
    c.large = {{31, 7001}};
    c.call = [call](const Tensors& x) { return call(x[0]); };
    c.reference = [centre](const Arrays& x) {
      return along(x[0], x[0].shape.size() - 1, -1, [centre](Line l) {
        const double m = centre(l);
        double square = 0;
        for (double v : l) square += (v - m) * (v - m);
        const double scale = 1 / std::sqrt(square / static_cast<double>(l.size()) + 1e-5);
        for (double& v : l) v = (v - m) * scale;
        return l;
      });
    };
    c.loose = 10;  // x − mean cancels, and the rest is multiplied by up to 1/σ
    return c;
  };
  cases.push_back(over_last(
      Op::layer_norm, "layer_norm", [](const Tensor& t) { return layer_norm(t, Shape{t.size(-1)}); },
      [](const Line& l) { return std::accumulate(l.begin(), l.end(), 0.0) / static_cast<double>(l.size()); }));
  cases.push_back(over_last(
      Op::rms_norm, "rms_norm", [](const Tensor& t) { return rms_norm(t, Shape{t.size(-1)}, {}, 1e-5); },
      [](const Line&) { return 0.0; }));
}

void add_shape_cases(std::vector<Case>& cases) {
  auto shaped = [&cases](Op op, const char* name, std::vector<std::vector<Index>> shapes,
                         Tensor (*call)(const Tensors&), Array (*reference)(const Arrays&)) {
    Case c;
    c.op = op;
    c.name = name;
    c.inputs.resize(shapes[0].size());
    c.large = shapes.back();  // the last set is the large one
    shapes.pop_back();
    c.shapes = std::move(shapes);
    c.call = call;
    c.reference = reference;
    c.integers = true;
    cases.push_back(c);
  };
  shaped(
      Op::reshape, "reshape", {{{3, 4}}, {{2, 3, 5}}, {{33, 2}}, {{0, 4}}, {{1}}, {{1025, 2}}, {{7001, 30}}},
      [](const Tensors& x) {
        return reshape(x[0], {-1, 1, x[0].numel()});
      },
      [](const Arrays& x) {
        Array out = x[0];
        out.shape = {1, 1, x[0].numel()};
        if (x[0].numel() == 0) out.shape = {0, 1, 0};
        return out;
      });
  cases.back().shapes.erase(cases.back().shapes.begin() + 3);  // −1 is ambiguous for an empty shape
  shaped(
      Op::permute, "permute", {{{2, 3, 2}}, {{3, 0, 2}}, {{1, 33, 5}}, {{7, 3, 11}}, {{1, 1, 1}}, {{70, 50, 60}}},
      [](const Tensors& x) {
        return permute(x[0], {2, 0, 1});
      },
      [](const Arrays& x) {
        Array out({x[0].shape[2], x[0].shape[0], x[0].shape[1]});
        each_index(x[0].shape, [&](const Index& i) { out.at({i[2], i[0], i[1]}) = x[0].at(i); });
        return out;
      });
  shaped(
      Op::expand, "expand", {{{3, 1}}, {{1, 1}}, {{33, 1}}, {{0, 1}}, {{70001, 1}}},
      [](const Tensors& x) {
        return expand(x[0], {2, -1, 5});
      },
      [](const Arrays& x) {
        Array out({2, x[0].shape[0], 5});
        std::size_t k = 0;
        each_index(out.shape, [&](const Index& i) { out.values[k++] = x[0].at(i); });
        return out;
      });
  shaped(
      Op::narrow, "narrow", {{{3, 6}}, {{1, 4}}, {{5, 33}}, {{0, 5}}, {{2, 1025}}, {{31, 7001}}},
      [](const Tensors& x) { return slice(x[0], 1, -2, 0, -2); },
      [](const Arrays& x) {
        const std::int64_t n = x[0].shape[1];
        std::vector<std::int64_t> at;
        for (std::int64_t k = n - 2; k > 0; k -= 2) at.push_back(k);
        Array out({x[0].shape[0], static_cast<std::int64_t>(at.size())});
        each_index(out.shape, [&](const Index& i) { out.at(i) = x[0].at({i[0], at[static_cast<std::size_t>(i[1])]}); });
        return out;
      });
  shaped(
      Op::cat, "cat",
      {{{2, 3}, {2, 2}},
       {{3, 0}, {3, 4}},
       {{33, 5}, {33, 7}},
       {{0, 2}, {0, 3}},
       {{1, 1025}, {1, 1}},
       {{7001, 20}, {7001, 10}}},
      [](const Tensors& x) {
        return cat({x[0], x[1], x[0]}, 1);
      },
      [](const Arrays& x) {
        const std::int64_t a = x[0].shape[1], b = x[1].shape[1];
        Array out({x[0].shape[0], 2 * a + b});
        each_index(out.shape, [&](const Index& i) {
          out.at(i) = i[1] < a ? x[0].at(i) : i[1] < a + b ? x[1].at({i[0], i[1] - a}) : x[0].at({i[0], i[1] - a - b});
        });
        return out;
      });
  shaped(
      Op::pad_zero, "pad_zero", {{{2, 3}}, {{0, 3}}, {{33, 4}}, {{1, 1}}, {{7001, 30}}},
      [](const Tensors& x) { return pad_zero(x[0], 1, 2, 1); },
      [](const Arrays& x) {
        Array out({x[0].shape[0], x[0].shape[1] + 3});
        each_index(x[0].shape, [&](const Index& i) { out.at({i[0], i[1] + 2}) = x[0].at(i); });
        return out;
      });
}

// Index operations: input 0 is the source, the last or last but one input the index.
void add_index_cases(std::vector<Case>& cases) {
  auto indexed = [&cases](Op op, const char* name, std::vector<Input> inputs, std::vector<std::vector<Index>> shapes,
                          Tensor (*call)(const Tensors&), Array (*reference)(const Arrays&)) {
    Case c;
    c.op = op;
    c.name = name;
    c.inputs = std::move(inputs);
    c.large = shapes.back();  // the last set is the large one
    shapes.pop_back();
    c.shapes = std::move(shapes);
    c.call = call;
    c.reference = reference;
    c.integers = true;
    c.sums_products = true;  // scatter_zero_add and index_zero_add; the others move numbers
    cases.push_back(c);
  };
  const Input number, by_row{{}, Input::Kind::index, 1}, below_four{{}, Input::Kind::index, 0, 4};
  auto taken = [](const Arrays& x) {
    Array out(x[1].shape);
    each_index(out.shape, [&](const Index& i) { out.at(i) = x[0].at({i[0], static_cast<std::int64_t>(x[1].at(i))}); });
    return out;
  };
  auto given = [](const Arrays& x) {
    Array out({x[0].shape[0], 4});
    each_index(x[0].shape, [&](const Index& i) {
      out.at({i[0], static_cast<std::int64_t>(x[1].at(i))}) += x[0].at(i);
    });
    return out;
  };
  indexed(
      Op::pick, "pick", {number, by_row},
      {{{3, 4}, {3, 1}},
       {{1, 1}, {1, 1}},
       {{33, 7}, {33, 1}},
       {{2, 1025}, {2, 1}},
       {{0, 5}, {0, 1}},
       {{7001, 30}, {7001, 1}}},
      [](const Tensors& x) { return gather(x[0], 1, x[1]); }, taken);
  indexed(
      Op::gather, "gather", {number, by_row},
      {{{3, 4}, {3, 6}}, {{5, 7}, {3, 2}}, {{33, 5}, {33, 9}}, {{3, 4}, {3, 0}}, {{7001, 30}, {7001, 20}}},
      [](const Tensors& x) { return gather(x[0], 1, x[1]); }, taken);
  for (const bool right : {false, true}) {
    Case c;
    c.op = Op::searchsorted;
    c.name = right ? "searchsorted_right" : "searchsorted";
    c.inputs = {number, number};
    c.shapes = {{{3, 5}, {3, 7}}, {{1, 1}, {1, 1}}, {{2, 33}, {2, 1025}}, {{4, 0}, {4, 3}}, {{3, 4}, {3, 0}}};
    c.large = {{3, 7001}, {3, 20011}};
    c.call = [right](const Tensors& x) { return searchsorted(sort(x[0], 1).first, x[1], right); };
    c.reference = [right](const Arrays& x) {
      Array out(x[1].shape);
      each_index(out.shape, [&](const Index& i) {
        double before = 0;
        for (std::int64_t k = 0; k < x[0].shape[1]; ++k) {
          const double at = x[0].at({i[0], k}), value = x[1].at(i);
          before += right ? at <= value : at < value;
        }
        out.at(i) = before;
      });
      return out;
    };
    c.integers = true;
    cases.push_back(c);
  }
  indexed(
      Op::place, "place", {number, below_four},
      {{{3, 1}, {3, 1}}, {{33, 1}, {33, 1}}, {{0, 1}, {0, 1}}, {{1025, 1}, {1025, 1}}, {{70001, 1}, {70001, 1}}},
      [](const Tensors& x) {
        return scatter_zero_add(x[0], 1, x[1], {x[0].size(0), 4});
      },
      given);
  indexed(
      Op::scatter_zero_add, "scatter_zero_add", {number, below_four},
      {{{3, 6}, {3, 6}}, {{33, 5}, {33, 5}}, {{3, 0}, {3, 0}}, {{7001, 30}, {7001, 30}}},
      [](const Tensors& x) {
        return scatter_zero_add(x[0], 1, x[1], {x[0].size(0), 4});
      },
      given);
  indexed(
      Op::scatter, "scatter", {number, by_row, number},
      {{{3, 5}, {3, 4}, {3, 4}},
       {{5, 7}, {2, 9}, {2, 9}},
       {{33, 3}, {33, 1}, {33, 1}},
       {{7001, 30}, {7001, 20}, {7001, 20}}},
      [](const Tensors& x) { return scatter(x[0], 1, x[1], x[2]); },
      [](const Arrays& x) {
        Array out = x[0];
        each_index(x[1].shape, [&](const Index& i) {
          out.at({i[0], static_cast<std::int64_t>(x[1].at(i))}) = x[2].at(i);
        });
        return out;
      });
  indexed(
      Op::index_select, "index_select", {number, by_row},
      {{{3, 4}, {6}}, {{2, 5}, {0}}, {{33, 7}, {9}}, {{3, 1025}, {3}}, {{7001, 30}, {20}}},
      [](const Tensors& x) { return index_select(x[0], 1, x[1]); },
      [](const Arrays& x) {
        Array out({x[0].shape[0], x[1].shape[0]});
        each_index(out.shape, [&](const Index& i) {
          out.at(i) = x[0].at({i[0], static_cast<std::int64_t>(x[1].at({i[1]}))});
        });
        return out;
      });
  indexed(
      Op::index_zero_add, "index_zero_add", {number, below_four},
      {{{3, 6}, {6}}, {{2, 0}, {0}}, {{5, 33}, {33}}, {{7001, 30}, {30}}},
      [](const Tensors& x) {
        return index_zero_add(x[0], 1, x[1], {x[0].size(0), 4});
      },
      [](const Arrays& x) {
        Array out({x[0].shape[0], 4});
        each_index(x[0].shape, [&](const Index& i) {
          out.at({i[0], static_cast<std::int64_t>(x[1].at({i[1]}))}) += x[0].at(i);
        });
        return out;
      });
}

// s[i] = g[i] + x[i+1]·s[i+1]
void add_recurrence_cases(std::vector<Case>& cases) {
  Case c;
  c.op = Op::linear_recurrence;
  c.name = "linear_recurrence";
  c.inputs = {Input{}, Input{{{-0.9, 0.9}}}};
  c.shapes = {{{3, 5}, {3, 5}}, {{2, 1}, {2, 1}}, {{1, 33}, {1, 33}}, {{2, 0}, {2, 0}}};
  c.large = {{5, 1001}, {5, 1001}};
  c.call = [](const Tensors& x) { return linear_recurrence(x[0], x[1], 1); };
  c.reference = [](const Arrays& x) {
    Array s(x[0].shape);
    for (std::int64_t row = 0; row < x[0].shape[0]; ++row) {
      double carry = 0;
      for (std::int64_t i = x[0].shape[1]; i-- > 0;) {
        s.at({row, i}) = x[0].at({row, i}) + carry;
        carry = x[1].at({row, i}) * s.at({row, i});
      }
    }
    return s;
  };
  c.sums_products = true;
  cases.push_back(c);
}

// Σ y[n, c, p]·w[n, p, k]·x[n, c, index[n, p, k] − 1], x[.., −1] = 0, through its derivatives by y, x and w; rows of x
// have four elements.
void add_weighted_index_cases(std::vector<Case>& cases) {
  // The terms of the sum: f(places in x, y and w).
  const auto each_product = [](const Array& index, std::int64_t rows, auto f) {
    each_index(index.shape, [&](const Index& i) {
      const auto at = static_cast<std::int64_t>(index.at(i)) - 1;
      for (std::int64_t c = 0; at >= 0 && c < rows; ++c) f(Index{i[0], c, at}, Index{i[0], c, i[1]}, i);
    });
  };
  const Input number, below_five{{}, Input::Kind::index, 0, 5};
  const auto wide = [](const Tensor& x) { return cast(x, compute_dtype(x.dtype())); };
  const auto add = [&](Op op, const char* name, std::vector<Input> inputs, std::vector<std::vector<Index>> shapes,
                       std::function<Tensor(const Tensors&)> call, std::function<Array(const Arrays&)> reference) {
    Case c;
    c.op = op;
    c.name = name;
    c.inputs = std::move(inputs);
    c.large = shapes.back();
    shapes.pop_back();
    c.shapes = std::move(shapes);
    c.call = std::move(call);
    c.reference = std::move(reference);
    c.sums_products = true;
    cases.push_back(c);
  };
  add(
      Op::weighted_gather, "weighted_gather", {number, below_five, number},
      {{{2, 3, 4}, {2, 5, 2}, {2, 5, 2}},
       {{1, 9, 4}, {1, 33, 4}, {1, 33, 4}},
       {{3, 17, 4}, {3, 1, 1}, {3, 1, 1}},
       {{2, 0, 4}, {2, 5, 2}, {2, 5, 2}},
       {{2, 3, 4}, {2, 0, 2}, {2, 0, 2}},
       {{5, 33, 4}, {5, 1001, 4}, {5, 1001, 4}}},
      [](const Tensors& x) { return weighted_gather(x[0], x[1] - 1, x[2]); },
      [each_product](const Arrays& x) {
        Array y({x[0].shape[0], x[0].shape[1], x[1].shape[1]});
        each_product(x[1], x[0].shape[1],
                     [&](const Index& i, const Index& j, const Index& k) { y.at(j) += x[2].at(k) * x[0].at(i); });
        return y;
      });
  add(
      Op::weighted_scatter, "weighted_scatter", {number, below_five, number},
      {{{2, 3, 5}, {2, 5, 2}, {2, 5, 2}},
       {{1, 9, 33}, {1, 33, 4}, {1, 33, 4}},
       {{3, 17, 1}, {3, 1, 1}, {3, 1, 1}},
       {{2, 0, 5}, {2, 5, 2}, {2, 5, 2}},
       {{2, 3, 0}, {2, 0, 2}, {2, 0, 2}},
       {{5, 33, 1001}, {5, 1001, 4}, {5, 1001, 4}}},
      [wide](const Tensors& x) { return weighted_scatter_node(x[0], x[1] - 1, wide(x[2]), 4); },
      [each_product](const Arrays& x) {
        Array out({x[0].shape[0], x[0].shape[1], 4});
        each_product(x[1], x[0].shape[1],
                     [&](const Index& i, const Index& j, const Index& k) { out.at(i) += x[2].at(k) * x[0].at(j); });
        return out;
      });
  add(
      Op::gather_dot, "gather_dot", {number, number, below_five},
      {{{2, 3, 4}, {2, 3, 5}, {2, 5, 2}},
       {{1, 9, 4}, {1, 9, 33}, {1, 33, 4}},
       {{3, 17, 4}, {3, 17, 1}, {3, 1, 1}},
       {{2, 0, 4}, {2, 0, 5}, {2, 5, 2}},
       {{2, 3, 4}, {2, 3, 0}, {2, 0, 2}},
       {{5, 33, 4}, {5, 33, 1001}, {5, 1001, 4}}},
      [](const Tensors& x) { return cast(gather_dot_node(x[0], x[1], x[2] - 1), x[0].dtype()); },
      [each_product](const Arrays& x) {
        Array w(x[2].shape);
        each_product(x[2], x[0].shape[1],
                     [&](const Index& i, const Index& j, const Index& k) { w.at(k) += x[0].at(i) * x[1].at(j); });
        return w;
      });
}

// ---- matrices -------------------------------------------------------------------------------------------------------

using Matrix = std::vector<std::vector<double>>;

Matrix to_matrix(const Array& a) {
  Matrix m(static_cast<std::size_t>(a.shape[0]), Line(static_cast<std::size_t>(a.shape[1])));
  each_index(a.shape,
             [&](const Index& i) { m[static_cast<std::size_t>(i[0])][static_cast<std::size_t>(i[1])] = a.at(i); });
  return m;
}
Array to_array(const Matrix& m, std::int64_t columns) {
  Array a({static_cast<std::int64_t>(m.size()), columns});
  each_index(a.shape,
             [&](const Index& i) { a.at(i) = m[static_cast<std::size_t>(i[0])][static_cast<std::size_t>(i[1])]; });
  return a;
}
// A·Aᵀ + n·1, symmetric and positive definite for every A; and A + shift·1.
Matrix gram(const Array& x) {
  const Matrix a = to_matrix(x);
  Matrix s(a.size(), Line(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) {
      for (std::size_t k = 0; k < a[i].size(); ++k) s[i][j] += a[i][k] * a[j][k];
    }
    s[i][i] += 2;
  }
  return s;
}
Tensor gram(const Tensor& a) { return matmul(a, t(a)) + 2 * eye(a.size(0), {}, a.dtype()); }
Tensor shifted(const Tensor& a) { return a + 4 * eye(a.size(0), {}, a.dtype()); }

// Gaussian elimination without pivots: every matrix here is dominated by its diagonal. Returns the determinant.
double eliminate(Matrix& a, Matrix& b) {
  double det = 1;
  for (std::size_t k = 0; k < a.size(); ++k) {
    det *= a[k][k];
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i == k) continue;
      const double f = a[i][k] / a[k][k];
      for (std::size_t j = 0; j < a.size(); ++j) a[i][j] -= f * a[k][j];
      for (std::size_t j = 0; j < b[i].size(); ++j) b[i][j] -= f * b[k][j];
    }
  }
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (double& v : b[k]) v /= a[k][k];
  }
  return det;
}

void add_matrix_cases(std::vector<Case>& cases) {
  auto matrix = [&cases](Op op, const char* name, std::vector<std::vector<Index>> shapes,
                         Tensor (*call)(const Tensors&), Array (*reference)(const Arrays&)) {
    Case c;
    c.op = op;
    c.name = name;
    c.inputs.assign(shapes[0].size(), Input{{{-1, 1}}});
    c.large = shapes.back();  // the last set is the large one
    shapes.pop_back();
    c.shapes = std::move(shapes);
    c.call = call;
    c.reference = reference;
    // Solvers lose the condition number of their matrices, some tens here, in their residuals and differences of
    // gradients.
    c.sums_products = op == Op::matmul;
    c.loose = op == Op::matmul ? 4 : 200;  // matmul: sums of up to hundreds of products, in another order
    c.loose_gradient = 10;
    cases.push_back(c);
  };
  matrix(
      Op::matmul, "matmul",
      {{{3, 4}, {4, 2}},
       {{1, 1}, {1, 1}},
       {{7, 33}, {33, 5}},
       {{0, 3}, {3, 4}},
       {{2, 0}, {0, 3}},
       {{300, 200}, {200, 100}}},
      [](const Tensors& x) { return matmul(x[0], x[1]); },
      [](const Arrays& x) {
        Array out({x[0].shape[0], x[1].shape[1]});
        each_index(out.shape, [&](const Index& i) {
          for (std::int64_t k = 0; k < x[0].shape[1]; ++k) out.at(i) += x[0].at({i[0], k}) * x[1].at({k, i[1]});
        });
        return out;
      });
  matrix(
      Op::matmul, "matmul_batches",
      {{{2, 1, 3, 2}, {3, 2, 2}}, {{5, 7, 3}, {3, 9}}, {{0, 2, 3}, {3, 2}}, {{20, 1, 30, 40}, {5, 40, 30}}},
      [](const Tensors& x) { return matmul(x[0], x[1]); },
      [](const Arrays& x) {
        Arrays batches{Array(Index(x[0].shape.begin(), x[0].shape.end() - 2)),
                       Array(Index(x[1].shape.begin(), x[1].shape.end() - 2))};
        Index shape = broadcast(batches);
        const std::size_t r = shape.size();
        const std::int64_t inner = x[0].shape.back();
        shape.push_back(x[0].shape[x[0].shape.size() - 2]);
        shape.push_back(x[1].shape.back());
        Array out(shape);
        each_index(shape, [&](const Index& i) {
          Index a = i, b = i;
          for (std::int64_t k = 0; k < inner; ++k) {
            a[r + 1] = b[r] = k;
            out.at(i) += x[0].at(a) * x[1].at(b);
          }
        });
        return out;
      });
  matrix(
      Op::cholesky, "cholesky", {{{3, 3}}, {{1, 1}}, {{7, 7}}, {{150, 150}}},
      [](const Tensors& x) { return cholesky(gram(x[0])); },
      [](const Arrays& x) {
        const Matrix s = gram(x[0]);
        Matrix l(s.size(), Line(s.size()));
        for (std::size_t i = 0; i < s.size(); ++i) {
          for (std::size_t j = 0; j <= i; ++j) {
            double v = s[i][j];
            for (std::size_t k = 0; k < j; ++k) v -= l[i][k] * l[j][k];
            l[i][j] = i == j ? std::sqrt(v) : v / l[j][j];
          }
        }
        return to_array(l, x[0].shape[0]);
      });
  matrix(
      Op::triangular_solve, "triangular_solve",
      {{{3, 3}, {3, 2}}, {{1, 1}, {1, 1}}, {{7, 7}, {7, 5}}, {{150, 150}, {150, 90}}},
      [](const Tensors& x) { return triangular_solve(shifted(x[0]), x[1]); },
      [](const Arrays& x) {
        Matrix a = to_matrix(x[0]), b = to_matrix(x[1]);
        for (std::size_t i = 0; i < a.size(); ++i) {
          a[i][i] += 4;
          for (std::size_t j = i + 1; j < a.size(); ++j) a[i][j] = 0;
        }
        eliminate(a, b);
        return to_array(b, x[1].shape[1]);
      });
  matrix(
      Op::solve, "solve", {{{3, 3}, {3, 2}}, {{1, 1}, {1, 1}}, {{7, 7}, {7, 5}}, {{150, 150}, {150, 90}}},
      [](const Tensors& x) { return solve(shifted(x[0]), x[1]); },
      [](const Arrays& x) {
        Matrix a = to_matrix(x[0]), b = to_matrix(x[1]);
        for (std::size_t i = 0; i < a.size(); ++i) a[i][i] += 4;
        eliminate(a, b);
        return to_array(b, x[1].shape[1]);
      });
  matrix(
      Op::det, "det", {{{4, 4}}, {{7, 7}}, {{20, 20}}}, [](const Tensors& x) { return 0.01 * det(shifted(x[0])); },
      [](const Arrays& x) {
        Matrix a = to_matrix(x[0]), none(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) a[i][i] += 4;
        return Array({}, 0.01 * eliminate(a, none));
      });
  matrix(
      Op::logdet, "logdet", {{{3, 3}}, {{1, 1}}, {{7, 7}}, {{150, 150}}},
      [](const Tensors& x) { return logdet(gram(x[0])); },
      [](const Arrays& x) {
        Matrix a = gram(x[0]), none(a.size());
        return Array({}, std::log(eliminate(a, none)));
      });
}

}  // namespace

std::vector<Case> tensor_cases() {
  std::vector<Case> cases;
  add_reductions(cases);
  add_shape_cases(cases);
  add_index_cases(cases);
  add_recurrence_cases(cases);
  add_weighted_index_cases(cases);
  add_matrix_cases(cases);
  return cases;
}

}  // namespace ebb::table
