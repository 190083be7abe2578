// SPDX-License-Identifier: MIT
#include "ebb/distributed/tensor_parallel.h"

#include <cmath>

#include "comm/buckets.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb::distributed {
namespace {

constexpr std::int64_t kOneBucket = std::int64_t{1} << 40;

int resolved(int parts, const World& among) {
  const int all = parts > 0 ? parts : among.size();
  require(all >= among.size(), "tensor parallel: {} ranks cannot share {} parts; give at least {}", among.size(), all,
          among.size());
  return all;
}

// The sum over the parts of all ranks, in the order of the tree; x is [own parts, ...].
Tensor summed(const Tensor& x, int parts, const World& among) {
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  comm::Tree<Tensor, decltype(add)> tree(add);
  const auto [first, last] = own_parts(parts, among);
  for (int p = first; p < last; ++p) tree.put({p, 1}, select(widen(x), 0, p - first));
  if (among.size() == 1) return cast(tree.total(), x.dtype());
  std::vector<std::vector<Tensor>> blocks;
  for (auto& [block, value] : tree.blocks()) blocks.push_back({value});
  return cast(comm::sum_over_shards(blocks, parts, kOneBucket, among.group())[0], x.dtype());
}

// x [own parts, ...] of all ranks, part by part.
std::vector<Tensor> gathered_parts(const Tensor& x, int parts, const World& among) {
  std::int64_t most = 0;
  for (int r = 0; r < among.size(); ++r) {
    most = std::max<std::int64_t>(
        most, comm::first_shard(parts, among.size(), r + 1) - comm::first_shard(parts, among.size(), r));
  }
  Tensor own = x;
  if (x.size(0) < most) own = cat({x, zeros(x.shape().with(0, most - x.size(0)), x.dtype())});
  const Tensor all = among.size() == 1 ? unsqueeze(own, 0)
                                       : among.group().collective(Collective::Kind::all_gather, "vocabulary_parallel",
                                                                  own, own.shape().inserted(0, among.size()));
  std::vector<Tensor> list;
  for (int r = 0; r < among.size(); ++r) {
    const int count = comm::first_shard(parts, among.size(), r + 1) - comm::first_shard(parts, among.size(), r);
    for (int k = 0; k < count; ++k) list.push_back(select(select(all, 0, r), 0, k));
  }
  return list;
}

// All ranks draw the same numbers for a parameter; a rank keeps its parts, in memory of their own.
Tensor own_part_of(const Tensor& whole, int first, int last) {
  return variable(contiguous(narrow(whole, 0, first, last - first)).eval());
}

// y [..., rows, n] plus a bias [..., 1, n], as a product with ones: the sum that is its gradient then has the order of
// products, which does not depend on how many other parts there are.
Tensor with_bias(const Tensor& y, const Tensor& bias) {
  return bias.defined() ? y + matmul(ones({y.size(-2), 1}, bias.dtype()), bias) : y;
}

void require_divisible(const char* layer, std::int64_t size, int parts) {
  require(size % parts == 0, "{}: {} cannot be divided into {} parts of equal size", layer, size, parts);
}

}  // namespace

std::pair<int, int> own_parts(int parts, const World& among) {
  parts = resolved(parts, among);
  return {comm::first_shard(parts, among.size(), among.rank()),
          comm::first_shard(parts, among.size(), among.rank() + 1)};
}

Tensor copy_to_parts(const Tensor& x, int parts, const World& among) {
  parts = resolved(parts, among);
  const auto [first, last] = own_parts(parts, among);
  const Shape many = x.shape().inserted(0, last - first);
  return custom_function([&](const std::vector<Tensor>& in) { return expand(unsqueeze(in[0], 0), many); },
                         [parts, among](const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
                           return std::vector<Tensor>{sum_over_parts(g, parts, among)};
                         },
                         {x});
}

Tensor sum_over_parts(const Tensor& x, int parts, const World& among) {
  parts = resolved(parts, among);
  const auto [first, last] = own_parts(parts, among);
  require(x.rank() > 0 && x.size(0) == last - first, "sum_over_parts: this rank has {} parts, the input has shape {}",
          last - first, x.shape());
  return custom_function([&](const std::vector<Tensor>& in) { return summed(in[0], parts, among); },
                         [parts, among](const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
                           return std::vector<Tensor>{copy_to_parts(g, parts, among)};
                         },
                         {x});
}

ColumnParallelLinear::ColumnParallelLinear(std::int64_t in, std::int64_t out, const ParallelLinearOptions& o,
                                           const World& w)
    : parts(resolved(o.parts, w)), among(w) {
  require_divisible("ColumnParallelLinear", out, parts);
  const auto [first, last] = own_parts(parts, among);
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, in)));
  weight = own_part_of(nn::uniform({parts, out / parts, in}, -bound, bound), first, last);
  if (o.bias) bias = own_part_of(nn::uniform({parts, 1, out / parts}, -bound, bound), first, last);
}

Tensor ColumnParallelLinear::operator()(const Tensor& x) const {
  require(x.rank() == 2 && x.size(1) == weight.size(2), "ColumnParallelLinear: the input must be [rows, {}], got {}",
          weight.size(2), x.shape());
  return with_bias(matmul(copy_to_parts(x, parts, among), transpose(weight, 1, 2)), bias);
}

RowParallelLinear::RowParallelLinear(std::int64_t in, std::int64_t out, const ParallelLinearOptions& o, const World& w)
    : parts(resolved(o.parts, w)), among(w) {
  require_divisible("RowParallelLinear", in, parts);
  const auto [first, last] = own_parts(parts, among);
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, in)));
  weight = own_part_of(nn::uniform({parts, out, in / parts}, -bound, bound), first, last);
  if (o.bias) bias = variable(nn::uniform({out}, -bound, bound).eval());
}

Tensor RowParallelLinear::operator()(const Tensor& x) const {
  require(x.rank() == 3 && x.size(0) == weight.size(0) && x.size(2) == weight.size(2),
          "RowParallelLinear: the input must be [{}, rows, {}], got {}", weight.size(0), weight.size(2), x.shape());
  const Tensor y = sum_over_parts(matmul(x, transpose(weight, 1, 2)), parts, among);
  return with_bias(y, bias.defined() ? reshape(bias, {1, -1}) : bias);
}

std::pair<std::int64_t, std::int64_t> own_vocabulary(std::int64_t vocabulary, int parts, const World& among) {
  parts = resolved(parts, among);
  const auto [first, last] = own_parts(parts, among);
  return {vocabulary * first / parts, vocabulary * last / parts};
}

namespace {

// One rank's view of the loss: chunks of rows × its parts of the vocabulary.
struct Slices {
  Tensor x, head, target;  // [n, H], [own rows, H], [n] i64
  std::int64_t vocabulary, chunk;
  int parts;
  World among;

  // Calls f(part, its first class, its rows of the head).
  template <class F>
  void each_part(F f) const {
    const auto [first, last] = own_parts(parts, among);
    const std::int64_t own = vocabulary * first / parts;
    for (int p = first; p < last; ++p) {
      const std::int64_t from = vocabulary * p / parts, to = vocabulary * (p + 1) / parts;
      f(p - first, from, widen(narrow(head, 0, from - own, to - from)));
    }
  }
  template <class F>
  void each_chunk(F f) const {
    for (std::int64_t at = 0; at < x.size(0); at += chunk) f(at, std::min(chunk, x.size(0) - at));
  }
  Tensor rows(std::int64_t at, std::int64_t n) const { return widen(narrow(x, 0, at, n)); }
  Tensor targets(std::int64_t at, std::int64_t n) const { return narrow(target, 0, at, n); }
};

// For every row and part: the largest logit m, Σ exp(l − m), and the logit of the target if it is in this part, else 0.
Tensor statistics(const Slices& s) {
  std::vector<Tensor> of_parts;
  s.each_part([&](int, std::int64_t first, const Tensor& head) {
    const std::int64_t size = head.size(0);
    std::vector<Tensor> largest, sums, picked;
    s.each_chunk([&](std::int64_t at, std::int64_t n) {
      const Tensor logits = matmul(s.rows(at, n), t(head)), m = max(logits, 1);
      const Tensor index = s.targets(at, n) - first, inside = logical_and(index >= 0, index < size);
      const Tensor found = squeeze(gather(logits, 1, unsqueeze(clamp(index, 0, size - 1), 1)), 1);
      largest.push_back(m);
      sums.push_back(sum(exp(logits - unsqueeze(m, 1)), 1));
      picked.push_back(where(inside, found, 0.0));
    });
    of_parts.push_back(stack({cat(largest), cat(sums), cat(picked)}));
  });
  return stack(of_parts);
}

// log Σ exp of every row and the target's logit. The parts are combined in the order of the tree.
std::pair<Tensor, Tensor> combined(const Slices& s) {
  const std::vector<Tensor> parts = gathered_parts(statistics(s), s.parts, s.among);
  Tensor largest = select(parts[0], 0, 0);
  for (std::size_t p = 1; p < parts.size(); ++p) largest = maximum(largest, select(parts[p], 0, 0));
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  comm::Tree<Tensor, decltype(add)> sums(add), picked(add);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    sums.put({static_cast<int>(p), 1}, select(parts[p], 0, 1) * exp(select(parts[p], 0, 0) - largest));
    picked.put({static_cast<int>(p), 1}, select(parts[p], 0, 2));
  }
  return {largest + log(sums.total()), picked.total()};
}

// Gradients of x and of this rank's rows of the head, from one cotangent per row: with p = softmax(logits),
//   dlogits = (p − onehot(target))·g,   dx = Σ over parts dlogits·head,   dhead = dlogitsᵀ·x
std::pair<Tensor, Tensor> gradients(const Slices& s, const Tensor& lse, const Tensor& g) {
  std::vector<Tensor> of_x, of_head;
  s.each_part([&](int, std::int64_t first, const Tensor& head) {
    std::vector<Tensor> dx;
    Tensor dhead;
    s.each_chunk([&](std::int64_t at, std::int64_t n) {
      const Tensor x = s.rows(at, n), logits = matmul(x, t(head));
      const Tensor is_target = unsqueeze(s.targets(at, n) - first, 1) == arange(head.size(0));
      const Tensor p = exp(logits - unsqueeze(narrow(lse, 0, at, n), 1));
      const Tensor d = where(is_target, p - 1.0, p) * unsqueeze(narrow(g, 0, at, n), 1);
      dx.push_back(matmul(d, head));
      const Tensor more = matmul(t(d), x);
      dhead = dhead.defined() ? dhead + more : more;
    });
    of_x.push_back(cat(dx));
    of_head.push_back(dhead);
  });
  return {cast(summed(stack(of_x), s.parts, s.among), s.x.dtype()), cast(cat(of_head), s.head.dtype())};
}

Tensor differentiable_once(const Tensor& value, const std::vector<Tensor>& inputs) {
  return custom_function([&](const std::vector<Tensor>&) { return value; },
                         [](const Tensor&, const Tensor&, const std::vector<Tensor>&) -> std::vector<Tensor> {
                           fail(Error::Kind::value,
                                "vocabulary_parallel_cross_entropy: it has no second derivatives; use "
                                "linear_cross_entropy on one rank");
                         },
                         inputs);
}

}  // namespace

Tensor vocabulary_parallel_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                                         std::int64_t vocabulary, const VocabularyParallelOptions& o,
                                         const World& among) {
  constexpr const char* kName = "vocabulary_parallel_cross_entropy";
  const int parts = resolved(o.parts, among);
  const auto [from, to] = own_vocabulary(vocabulary, parts, among);
  require(vocabulary >= parts, "{}: a vocabulary of {} cannot be divided into {} parts", kName, vocabulary, parts);
  require(x.rank() == 2 && head.rank() == 2 && x.size(1) == head.size(1) && head.size(0) == to - from,
          "{}: x must be [n, H] and this rank's head [{}, H], got {} and {}", kName, to - from, x.shape(),
          head.shape());
  require(target.shape() == Shape{x.size(0)} && x.size(0) > 0,
          "{}: the targets must be [{}] with at least one row, got {}", kName, x.size(0), target.shape());
  require(o.chunk > 0, "{}: chunk must be positive, got {}", kName, o.chunk);

  const Tensor classes = cast(target, DType::i64), counts = classes != o.ignore_index;
  const Tensor good = logical_or(logical_not(counts), logical_and(classes >= 0, classes < vocabulary));
  const Slices s{x,     head, check(classes, good, "vocabulary_parallel_cross_entropy: target"), vocabulary, o.chunk,
                 parts, among};
  Tensor lse, loss, share;  // share: a row's weight in the mean
  {
    const NoHistory scope;
    share = cast(counts, DType::f32) / sum(cast(counts, DType::f32));
    Tensor picked;
    std::tie(lse, picked) = combined(s);
    loss = sum(where(counts, lse - picked, 0.0) * share);
  }
  return custom_function([&](const std::vector<Tensor>&) { return loss; },
                         [s, lse = lse, share = share](const Tensor& g, const Tensor&, const std::vector<Tensor>& in) {
                           std::pair<Tensor, Tensor> d;
                           {
                             const NoHistory scope;
                             d = gradients(s, lse, widen(g) * share);
                           }
                           return std::vector<Tensor>{differentiable_once(d.first, {g, in[0], in[1]}),
                                                      differentiable_once(d.second, {g, in[0], in[1]})};
                         },
                         {x, head});
}

}  // namespace ebb::distributed
