// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "core/parallel.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"

namespace ebb {
namespace {

// On a device that supports it.
std::optional<Tensor> nonzero_there(const Tensor& x) {
  if (x.device() == Device{} || x.numel() == 0 || x.rank() == 0) return std::nullopt;
  const NoHistory scope;
  const Tensor bits = contiguous(cast(x, DType::bool_)).eval();
  const Storage& storage = bits.node()->storage;
  Backend& backend = backend_of(x.device());
  const FilledBy filled_by = storage.buffer.get()->filled_by;
  Run run = backend.begin({&filled_by, filled_by.mark ? 1u : 0u});  // elements from the host are ready
  std::optional<TruePlaces> found;
  try {
    found = backend.true_places(
        {storage.buffer.data() + storage.offset, DType::bool_, bits.shape(), contiguous_strides(bits.shape())}, run);
  } catch (...) {
    backend.end(run);
    throw;
  }
  backend.end(run);
  if (!found) return std::nullopt;
  found->memory.get()->filled_by = {run.mark, run.step};
  return make_data(DType::i64, Shape{found->count, x.rank()}, found->memory);
}

}  // namespace

// Pieces of the elements are counted, then each writes after the end of those before it.
Tensor nonzero(const Tensor& x) {
  if (const std::optional<Tensor> there = nonzero_there(x)) return *there;
  const std::vector<std::uint8_t> bits = cast(x, DType::bool_).to_vector<std::uint8_t>();
  constexpr std::int64_t kPiece = 65536;
  const int rank = x.rank();
  const auto n = static_cast<std::int64_t>(bits.size());
  const std::int64_t pieces = (n + kPiece - 1) / kPiece, width = rank > 0 ? std::max<std::int64_t>(1, x.size(-1)) : 1;
  std::vector<std::int64_t> start(static_cast<std::size_t>(pieces) + 1);
  parallel_for(pieces, [&](std::int64_t p) {
    const auto first = bits.begin() + p * kPiece;
    start[static_cast<std::size_t>(p) + 1] = std::accumulate(first, first + std::min(kPiece, n - p * kPiece), 0);
  });
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(start.back() * rank));
  parallel_for(rank > 0 ? pieces : 0, [&](std::int64_t p) {
    std::int64_t* to = rows.data() + start[static_cast<std::size_t>(p)] * rank;
    const std::int64_t end = std::min(n, (p + 1) * kPiece);
    for (std::int64_t i = p * kPiece; i < end;) {  // up to the end of a line along the last axis
      std::int64_t outer[Shape::kMaxRank], rest = i / width;
      for (int axis = rank - 2; axis >= 0; --axis) {
        outer[axis] = rest % x.shape()[axis];
        rest /= x.shape()[axis];
      }
      const std::int64_t line = i - i % width, stop = std::min(end, line + width);
      for (; i < stop; ++i) {
        if (!bits[static_cast<std::size_t>(i)]) continue;
        to = std::copy_n(outer, rank - 1, to);
        *to++ = i - line;
      }
    }
  });
  return from_data(rows, Shape{start.back(), rank}).to(x.device());
}

}  // namespace ebb
