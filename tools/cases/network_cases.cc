// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/cases.h"
#include "ebb/ops.h"

// Norms of channels and attention against loops.
namespace ebb::table {

namespace {

// ---- norms of channels ----------------------------------------------------------------------------------------------

// (x − mean)/sqrt(var + eps)·weight + bias, with the statistics of all elements of one group.
template <class GroupOf>
Array norm_of_groups(const Arrays& a, GroupOf group_of) {
  const Array& x = a[0];
  const std::size_t groups = static_cast<std::size_t>(x.shape[0] * x.shape[1]) + 1;
  std::vector<double> count(groups), sum(groups), square(groups);
  const auto each = [&](auto body) {
    each_index(x.shape, [&](const Index& i) { body(i, static_cast<std::size_t>(group_of(i, x.shape[1]))); });
  };
  each([&](const Index& i, std::size_t g) { ++count[g], sum[g] += x.at(i); });
  const auto centred = [&](const Index& i, std::size_t g) { return x.at(i) - sum[g] / count[g]; };
  each([&](const Index& i, std::size_t g) { square[g] += centred(i, g) * centred(i, g); });
  Array y(x.shape);
  each([&](const Index& i, std::size_t g) {
    y.at(i) = centred(i, g) / std::sqrt(square[g] / count[g] + 1e-5) * a[1].at({i[1]}) + a[2].at({i[1]});
  });
  return y;
}

}  // namespace

std::vector<Case> channel_norm_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, auto call, auto group_of, std::initializer_list<Index> shapes) {
    Case c;
    c.op = Op::layer_norm;  // the norms share its node and its rule
    c.name = name;
    c.inputs.resize(3);
    for (const Index& x : shapes) c.shapes.push_back({x, {x[1]}, {x[1]}});
    c.large = {{64, 8, 700}, {8}, {8}};
    c.call = call;
    c.reference = [group_of](const Arrays& a) { return norm_of_groups(a, group_of); };
    c.loose = 100;          // 1/√eps times the rounding, where equal elements have no variance
    c.loose_narrow = 3;     // sums over whole channels that nearly cancel
    c.kink_at_ties = true;  // a batch of equal elements has no variance: slopes of 1/√eps
    cases.push_back(std::move(c));
  };
  add(
      "batch_norm", [](const Tensors& x) { return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true}).y; },
      [](const Index& i, std::int64_t) { return i[1]; },
      {{3, 2, 4}, {8, 3}, {2, 3, 5, 7}, {1, 1, 2}, {5, 33, 9}, {2, 1025, 3}, {0, 3, 2}, {4, 2, 1031}});
  add(
      "group_norm", [](const Tensors& x) { return group_norm(x[0], 2, x[1], x[2]); },
      [](const Index& i, std::int64_t channels) { return i[0] * 2 + i[1] / (channels / 2); },
      {{2, 4, 3}, {3, 8}, {2, 6, 5, 7}, {1, 2}, {3, 34, 9}, {0, 4, 2}, {2, 4, 1031}});
  add(
      "instance_norm", [](const Tensors& x) { return instance_norm(x[0], x[1], x[2]); },
      [](const Index& i, std::int64_t channels) { return i[0] * channels + i[1]; },
      {{2, 3, 5}, {2, 3, 5, 7}, {1, 1, 1}, {5, 33, 9}, {0, 3, 2}, {2, 2, 1031}});

  // In evaluation the statistics are ordinary numbers.
  Case c;
  c.op = Op::rsqrt;
  c.name = "batch_norm_evaluation";
  c.inputs.resize(5);
  c.inputs[2].domain = {{0.5, 2}};
  for (const Index& x : {Index{3, 2, 4}, {8, 3}, {2, 3, 5, 7}, {1, 1}, {5, 33, 9}, {0, 3, 2}, {4, 2, 1031}}) {
    c.shapes.push_back({x, {x[1]}, {x[1]}, {x[1]}, {x[1]}});
  }
  c.large = {{64, 8, 700}, {8}, {8}, {8}, {8}};
  c.call = [](const Tensors& x) { return batch_norm(x[0], x[1], x[2], x[3], x[4]).y; };
  c.reference = [](const Arrays& a) {
    Array y(a[0].shape);
    each_index(y.shape, [&](const Index& i) {
      const Index k{i[1]};
      y.at(i) = (a[0].at(i) - a[1].at(k)) / std::sqrt(a[2].at(k) + 1e-5) * a[3].at(k) + a[4].at(k);
    });
    return y;
  };
  c.loose = 10;  // x − mean cancels, and 1/√(var + eps) multiplies what is left by up to 1/√var
  cases.push_back(std::move(c));
  return cases;
}

namespace {

// ---- attention ------------------------------------------------------------------------------------------------------

// softmax(q·kᵀ/√D + mask)·v, 0 where a row sees nothing. With `visible` the mask says what may be seen, otherwise it is
// added.
Array attention_of(const Arrays& a, bool causal, bool visible) {
  const Array &q = a[0], &k = a[1], &v = a[2];
  const auto batch_of = [](const Array& x) { return Array(Index(x.shape.begin(), x.shape.end() - 2)); };
  Index shape = broadcast({batch_of(q), batch_of(k), batch_of(v)});
  const std::size_t rank = shape.size() + 2;
  const std::int64_t rows = q.shape.end()[-2], depth = q.shape.back(), keys = k.shape.end()[-2];
  shape.insert(shape.end(), {rows, v.shape.back()});
  Array y(shape);
  Index lines = shape;
  lines[rank - 1] = 1;
  each_index(lines, [&](Index i) {
    const std::int64_t row = i[rank - 2];
    const auto at = [&](std::int64_t m, std::int64_t n) {
      Index j = i;
      j[rank - 2] = m, j[rank - 1] = n;
      return j;
    };
    std::vector<double> scores;
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t s = 0; s < keys; ++s) {
      double score = 0;
      for (std::int64_t d = 0; d < depth; ++d) score += q.at(at(row, d)) * k.at(at(s, d));
      score /= std::sqrt(static_cast<double>(depth));
      if (a.size() > 3 && !visible) score += a[3].at(at(row, s));
      const bool hidden = (causal && s > row) || (a.size() > 3 && visible && a[3].at(at(row, s)) == 0);
      scores.push_back(hidden ? -std::numeric_limits<double>::infinity() : score);
      top = std::max(top, scores.back());
    }
    if (std::isinf(top)) return;
    for (double& s : scores) total += s = std::exp(s - top);
    for (std::int64_t e = 0; e < shape.back(); ++e) {
      double& to = y.at(at(row, e));
      for (std::int64_t s = 0; s < keys; ++s) to += scores[static_cast<std::size_t>(s)] / total * v.at(at(s, e));
    }
  });
  return y;
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  enum class Mask { none, visible, added };
  const auto add = [&](const char* name, bool causal, Mask mask) {
    Case c;
    // A call with a rule of its own; a mask that is differentiated takes the plain formula.
    c.op = mask == Mask::added ? Op::logsumexp : Op::custom;
    c.name = name;
    c.inputs.resize(mask == Mask::none ? 3 : 4);
    if (mask == Mask::visible) c.inputs[3].kind = Input::Kind::mask;
    // q, k and v: small, one element, more than a block, broadcast, and with nothing in one place or another.
    c.shapes = {{{2, 3, 2}, {2, 4, 2}, {2, 4, 3}},       {{1, 1}, {1, 1}, {1, 1}},
                {{2, 65, 7}, {2, 257, 7}, {2, 257, 5}},  {{2, 1, 5, 3}, {3, 7, 3}, {7, 4}},
                {{3, 2, 33, 8}, {3, 1, 31, 8}, {31, 9}}, {{0, 4, 2}, {0, 3, 2}, {0, 3, 2}},
                {{2, 0, 3}, {2, 4, 3}, {2, 4, 2}},       {{2, 3, 3}, {2, 0, 3}, {2, 0, 2}}};
    c.large = {{4, 200, 16}, {4, 500, 16}, {4, 500, 16}};
    if (mask != Mask::none) {
      for (auto& set : c.shapes) set.push_back({set[0].end()[-2], set[1].end()[-2]});
      c.large.push_back({200, 500});
    }
    c.call = [causal, mask](const Tensors& x) {
      AttentionOptions o;
      o.causal = causal;
      if (mask != Mask::none) o.mask = x[3];
      return scaled_dot_product_attention(x[0], x[1], x[2], o);
    };
    c.reference = [causal, mask](const Arrays& a) { return attention_of(a, causal, mask == Mask::visible); };
    c.loose = 20;        // scores and weights are rounded before they are used: two roundings of a few units each
    c.loose_narrow = 3;  // the gradient starts from the rounded output
    cases.push_back(std::move(c));
  };
  add("attention", false, Mask::none);
  add("attention_causal", true, Mask::none);
  add("attention_masked", false, Mask::visible);
  add("attention_causal_masked", true, Mask::visible);
  add("attention_added_mask", false, Mask::added);
  return cases;
}

}  // namespace ebb::table
