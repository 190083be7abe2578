// SPDX-License-Identifier: MIT
#include "comm/division.h"

#include <algorithm>
#include <numeric>

#include "ebb/ops/shape.h"
#include "ops/build.h"
#include "ops/piece_norms.h"

namespace ebb::comm {

namespace {

// A cut parameter is assembled on every rank, its own part included; a whole one stays where it was updated. That copy
// costs as much as a share that is larger by a quarter.
constexpr std::int64_t kUneven = 4;

}  // namespace

std::vector<Parts> divide(const Parameters& parameters, int ranks) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), 0);
  const auto elements = [&](std::size_t p) { return parameters[p].tensor->numel(); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return elements(a) > elements(b); });
  std::int64_t all = 0;
  for (std::size_t p : order) all += elements(p);
  std::vector<std::int64_t> left(static_cast<std::size_t>(ranks));  // how much each rank still has to take
  for (int r = 0; r < ranks; ++r) left[static_cast<std::size_t>(r)] = all / ranks + (r < all % ranks ? 1 : 0);
  std::vector<Parts> parts(parameters.size());
  for (std::size_t p : order) {
    const std::int64_t n = elements(p);
    for (std::int64_t from = 0; parts[p].empty() || from < n; from = parts[p].back().to) {
      int owner = -1;
      for (int r = 0; r < ranks; ++r) {
        if (part_of(parts[p], r)) continue;
        if (owner < 0 || left[static_cast<std::size_t>(r)] > left[static_cast<std::size_t>(owner)]) owner = r;
      }
      // Cuts fall between pieces of norms, so that ranks can compute the norm from them.
      std::int64_t& takes = left[static_cast<std::size_t>(owner)];
      const std::int64_t fits = std::max<std::int64_t>(1, takes / kNormPiece) * kNormPiece;
      const bool rest = static_cast<int>(parts[p].size()) + 1 == ranks || n - from <= fits + all / ranks / kUneven;
      parts[p].push_back({owner, from, rest ? n : from + fits});
      takes -= parts[p].back().size();
    }
  }
  return parts;
}

const OwnedPart* part_of(const Parts& parts, int rank) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const OwnedPart& p) { return p.owner == rank; });
  return found == parts.end() ? nullptr : &*found;
}

int main_owner(const Parts& parts) {
  return std::max_element(parts.begin(), parts.end(),
                          [](const OwnedPart& a, const OwnedPart& b) { return a.size() < b.size(); })
      ->owner;
}

namespace {

constexpr const char* kElsewhere =
    "DataParallel: with to_owners a rank has the gradients of its own parameters, and no others: gradient";

}  // namespace

Tensor gradient_with_part(const Shape& shape, DType dtype, const Tensor& part) {
  const Tensor whole = check(zeros(shape, dtype), zeros({}, DType::bool_), kElsewhere);
  return part.defined() ? make_node(Op::depend, dtype, shape, {whole, part}) : whole;
}

bool has_part_only(const Tensor& gradient) {
  const Node* n = gradient.node();
  if (n->op == Op::depend && !n->inputs.empty()) n = n->inputs[0];
  return n->label == kElsewhere;
}

Tensor gradient_part(const Tensor& gradient, const OwnedPart& part) {
  if (const Node* n = gradient.node(); n->op == Op::depend && has_part_only(gradient)) return Tensor(n->inputs[1]);
  return narrow(reshape(gradient, {gradient.numel()}), 0, part.from, part.size());
}

Shape part_shape(const Shape& whole, const OwnedPart& part) {
  if (part.size() == whole.numel()) return whole;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(whole.rank()), 1);
  sizes.back() = part.size();
  return Shape(sizes);
}

}  // namespace ebb::comm
