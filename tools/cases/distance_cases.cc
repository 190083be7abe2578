// SPDX-License-Identifier: MIT
#include <cmath>

#include "cases/cases.h"
#include "ops/distance_nodes.h"

namespace ebb::table {
namespace {

double term(double difference, std::int64_t p) { return p == 1 ? std::fabs(difference) : difference * difference; }
double root(double sum, std::int64_t p) { return p == 1 ? sum : std::sqrt(sum); }
double pull(double difference, double distance, std::int64_t p) {
  return p == 2 ? difference / distance : difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

// Row i of the matrix number b, [rows, depth] or [batches, rows, depth].
const double* row_of(const Array& x, std::int64_t b, std::int64_t i) {
  const std::int64_t depth = x.shape.back(), rows = x.shape[x.shape.size() - 2];
  return x.values.data() + (b * rows + i) * depth;
}

Array distances(const Array& a, const Array& b, const DistanceCall& call) {
  const std::int64_t n = b.shape[b.shape.size() - 2], depth = a.shape.back();
  Array out(call.pairs ? Index{n * (n - 1) / 2} : Index{a.shape[0], a.shape[1], n});
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < (call.pairs ? 1 : a.shape[0]); ++batch) {
    for (std::int64_t i = 0; i < (call.pairs ? n : a.shape[1]); ++i) {
      for (std::int64_t j = call.pairs ? i + 1 : 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) sum += term(row_of(a, batch, i)[k] - row_of(b, batch, j)[k], call.p);
        out.values[at++] = root(sum, call.p);
      }
    }
  }
  return out;
}

// x = cotangent, distances, a and, except for pairs, b.
Array gradient(const Arrays& x, const DistanceCall& call) {
  const Array &a = x[2], &b = x[call.pairs ? 2 : 3];
  const std::int64_t n = b.shape[b.shape.size() - 2], depth = a.shape.back();
  Array out(a.shape);
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < (call.pairs ? 1 : a.shape[0]); ++batch) {
    for (std::int64_t i = 0; i < (call.pairs ? n : a.shape[1]); ++i) {
      for (std::int64_t j = call.pairs ? i + 1 : 0; j < n; ++j, ++at) {
        for (std::int64_t k = 0; k < depth; ++k) {
          const double g = x[0].values[at];
          const double to = g * pull(row_of(a, batch, i)[k] - row_of(b, batch, j)[k], x[1].values[at], call.p);
          const_cast<double*>(row_of(out, batch, i))[k] += to;
          if (call.pairs) const_cast<double*>(row_of(out, batch, j))[k] -= to;
        }
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Case> distance_cases() {
  std::vector<Case> cases;
  for (const std::int64_t p : {1, 2}) {
    for (const bool pairs : {false, true}) {
      const DistanceCall call{.p = p, .pairs = pairs};
      const std::string of = std::string(pairs ? "_of_pairs" : "") + (p == 1 ? "_p1" : "");
      Case value;
      value.op = Op::distances;
      value.name = "distances" + of;
      value.halves = false;  // cdist and pdist widen them
      value.inputs.resize(pairs ? 1 : 2);
      // Less than a block and more, rows that are not whole vectors, sums of more than a run, either side being the
      // longer one.
      if (pairs) {
        value.shapes = {{{4, 3}}, {{1, 5}}, {{2, 1}}, {{67, 5}}, {{9, 300}}, {{130, 17}}, {{0, 3}}, {{3, 0}}};
        value.large = {{300, 33}};
      } else {
        value.shapes = {{{1, 2, 3}, {1, 3, 3}},      {{2, 1, 5}, {2, 1, 5}},     {{1, 5, 1}, {1, 67, 1}},
                        {{2, 70, 7}, {2, 3, 7}},     {{1, 6, 300}, {1, 9, 300}}, {{17, 3, 2}, {17, 4, 2}},
                        {{1, 66, 17}, {1, 129, 17}}, {{2, 0, 3}, {2, 4, 3}},     {{2, 4, 0}, {2, 5, 0}}};
        value.large = {{2, 150, 33}, {2, 300, 33}};
      }
      value.loose = 4;
      value.loose_gradient = 20;
      value.call = [call](const Tensors& x) { return distances_node(x, call); };
      value.reference = [call](const Arrays& x) { return distances(x[0], x[x.size() - 1], call); };
      cases.push_back(value);

      Case slope = value;
      slope.op = Op::distances_gradient;
      slope.name = "distances_gradient" + of;
      slope.inputs.resize(value.inputs.size() + 2);
      slope.inputs[1].domain = {{0.5, 2}};  // distances
      const auto with_distances = [pairs](std::vector<Index>& shapes) {
        const Index a = shapes[0], b = shapes.back();
        const std::int64_t n = b[b.size() - 2];
        const Index d = pairs ? Index{n * (n - 1) / 2} : Index{a[0], a[1], n};
        shapes.insert(shapes.begin(), {d, d});
      };
      for (auto& shapes : slope.shapes) with_distances(shapes);
      with_distances(slope.large);
      slope.kink_at_ties = p == 1;
      slope.loose = 100;  // sums of a few hundred terms that may cancel
      slope.call = [call](const Tensors& x) {
        return distances_gradient_node(x[0], x[1], Tensors(x.begin() + 2, x.end()), call);
      };
      slope.reference = [call](const Arrays& x) { return gradient(x, call); };
      cases.push_back(slope);
    }
  }
  return cases;
}

}  // namespace ebb::table
