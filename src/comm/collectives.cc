// SPDX-License-Identifier: MIT
#include "ebb/distributed/collectives.h"

#include "comm/group.h"
#include "comm/tree.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops/create.h"
#include "ebb/ops/shape.h"
#include "ops/build.h"

namespace ebb::distributed {
namespace {

using Kind = Collective::Kind;

void require_parts(const char* op, const Tensor& x, const World& among) {
  require(x.rank() > 0 && x.size(0) % among.size() == 0,
          "{}: the first axis of {} cannot be divided among {} ranks; pad it to a multiple of {}", op, x.shape(),
          among.size(), among.size());
}

// [ranks, ...] from the x of all ranks.
Tensor gathered(const char* label, const Tensor& x, const World& among) {
  return among.group().collective(Kind::all_gather, label, x, x.shape().inserted(0, among.size()));
}

// The sum over the first axis, in the order of the tree.
Tensor sum_of_ranks(const Tensor& parts) {
  const Tensor wide = widen(parts);
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  comm::Tree<Tensor, decltype(add)> tree(add);
  for (std::int64_t r = 0; r < parts.size(0); ++r) tree.put({static_cast<int>(r), 1}, select(wide, 0, r));
  return cast(tree.total(), parts.dtype());
}

Tensor scattered(const char* label, const Tensor& x, const World& among) {
  const Tensor moved = among.group().collective(Kind::all_to_all, label, x, x.shape());
  const Shape part = x.shape().with(0, x.size(0) / among.size());
  return sum_of_ranks(reshape(moved, part.inserted(0, among.size())));
}

Tensor reduced(const char* label, const Tensor& x, const World& among) {
  if (x.numel() * static_cast<std::int64_t>(size_of(x.dtype())) <= comm::kSummedByEveryone) {
    return sum_of_ranks(gathered(label, x, among));
  }
  const std::int64_t n = x.numel(), part = (n + among.size() - 1) / among.size(), whole = part * among.size();
  Tensor flat = reshape(x, {n});
  if (whole != n) flat = pad(flat, {0, whole - n});
  const Tensor sums = reshape(gathered(label, scattered(label, flat, among), among), {whole});
  return reshape(narrow(sums, 0, 0, n), x.shape());
}

void require_numbers(const char* op, const Tensor& x) {
  require(x.defined(), "{}: the input has no value (a default-constructed Tensor)", op);
  require(x.dtype() != DType::bool_, Error::Kind::type, "{}: truth values cannot be summed; cast them first", op);
}

// f(x) with this rule for its cotangent.
template <class F, class Rule>
Tensor with_rule(const Tensor& x, F f, Rule rule) {
  return custom_function(
      [&](const std::vector<Tensor>& in) { return f(in[0]); },
      [rule](const Tensor& grad, const Tensor&, const std::vector<Tensor>&) { return std::vector<Tensor>{rule(grad)}; },
      {x});
}

}  // namespace

Tensor all_reduce(const Tensor& x, const World& among) {
  require_numbers("all_reduce", x);
  if (among.size() == 1) return x;
  return with_rule(
      x, [&](const Tensor& v) { return reduced("all_reduce", v, among); },
      [among](const Tensor& g) { return all_reduce(g, among); });
}

Tensor reduce_scatter(const Tensor& x, const World& among) {
  require_numbers("reduce_scatter", x);
  require_parts("reduce_scatter", x, among);
  if (among.size() == 1) return x;
  return with_rule(
      x, [&](const Tensor& v) { return scattered("reduce_scatter", v, among); },
      [among](const Tensor& g) { return all_gather(g, among); });
}

Tensor all_gather(const Tensor& x, const World& among) {
  require(x.defined() && x.rank() > 0, "all_gather: the input needs a first axis, along which ranks are joined");
  if (among.size() == 1) return x;
  return with_rule(
      x,
      [&](const Tensor& v) {
        return reshape(gathered("all_gather", v, among), v.shape().with(0, v.size(0) * among.size()));
      },
      [among](const Tensor& g) { return reduce_scatter(g, among); });
}

Tensor broadcast(const Tensor& x, int root, const World& among) {
  require(x.defined(), "broadcast: the input has no value; ranks other than the root give one of the same shape");
  require(root >= 0 && root < among.size(), Error::Kind::index, "broadcast: there is no rank {}, the world has {}",
          root, among.size());
  if (among.size() == 1) return x;
  return with_rule(
      x, [&](const Tensor& v) { return among.group().collective(Kind::broadcast, "broadcast", v, v.shape(), root); },
      [among, root](const Tensor& g) {
        const Tensor sum = all_reduce(g, among);
        // Zeros, but after the sum, which needs all ranks.
        return among.rank() == root ? sum
                                    : make_node(Op::depend, g.dtype(), g.shape(), {zeros(g.shape(), g.dtype()), sum});
      });
}

Tensor all_to_all(const Tensor& x, const World& among) {
  require(x.defined(), "all_to_all: the input has no value (a default-constructed Tensor)");
  require_parts("all_to_all", x, among);
  if (among.size() == 1) return x;
  return with_rule(
      x, [&](const Tensor& v) { return among.group().collective(Kind::all_to_all, "all_to_all", v, v.shape()); },
      [among](const Tensor& g) { return all_to_all(g, among); });
}

Tensor copy_to_ranks(const Tensor& x, const World& among) {
  if (among.size() == 1) return x;
  return with_rule(
      x, [](const Tensor& v) { return v; }, [among](const Tensor& g) { return sum_over_ranks(g, among); });
}

Tensor sum_over_ranks(const Tensor& x, const World& among) {
  require_numbers("sum_over_ranks", x);
  if (among.size() == 1) return x;
  return with_rule(
      x, [&](const Tensor& v) { return reduced("sum_over_ranks", v, among); },
      [among](const Tensor& g) { return copy_to_ranks(g, among); });
}

}  // namespace ebb::distributed
