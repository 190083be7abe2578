// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cstring>
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

// How many of n bytes are not 0. True is 1, but arrays of other libraries and files may have any other byte.
std::int64_t count_true(const std::uint8_t* bytes, std::int64_t n) {
  constexpr std::uint64_t kLow = 0x7F7F'7F7F'7F7F'7F7F;
  std::int64_t count = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes + i, 8);
    count += std::popcount((((eight & kLow) + kLow) | eight) & ~kLow);  // the highest bit of every byte that is not 0
  }
  for (; i < n; ++i) count += bytes[i] != 0;
  return count;
}

}  // namespace

// Pieces of the elements are counted, then each writes after the end of those before it.
Tensor nonzero(const Tensor& x) {
  if (const std::optional<Tensor> there = nonzero_there(x)) return *there;
  const NoHistory scope;
  const Tensor host = contiguous(cast(x, DType::bool_)).to(Device{}).eval();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(host.data<bool>());
  constexpr std::int64_t kPiece = 65536;
  const int rank = x.rank();
  const std::int64_t n = x.numel();
  const std::int64_t pieces = (n + kPiece - 1) / kPiece, width = rank > 0 ? std::max<std::int64_t>(1, x.size(-1)) : 1;
  std::vector<std::int64_t> start(static_cast<std::size_t>(pieces) + 1);
  parallel_for(pieces, [&](std::int64_t p) {
    start[static_cast<std::size_t>(p) + 1] = count_true(bytes + p * kPiece, std::min(kPiece, n - p * kPiece));
  });
  std::partial_sum(start.begin(), start.end(), start.begin());
  const BufferPtr places = BufferPtr::allocate(static_cast<std::size_t>(start.back() * rank) * 8, "nonzero");
  auto* const rows = reinterpret_cast<std::int64_t*>(places.data());
  parallel_for(rank > 0 ? pieces : 0, [&](std::int64_t p) {
    // Every element is written and the next one takes its place unless it is true: nothing is predicted.
    std::int64_t* to = rows + start[static_cast<std::size_t>(p)] * rank;
    const std::int64_t* const last = rows + start[static_cast<std::size_t>(p) + 1] * rank;
    const std::int64_t end = std::min(n, (p + 1) * kPiece);
    for (std::int64_t i = p * kPiece; i < end && to != last;) {  // up to the end of a line along the last axis
      std::int64_t outer[Shape::kMaxRank], rest = i / width;
      for (int axis = rank - 2; axis >= 0; --axis) {
        outer[axis] = rest % x.shape()[axis];
        rest /= x.shape()[axis];
      }
      const std::int64_t line = i - i % width, stop = std::min(end, line + width);
      if (rank == 1) {
        for (; i < stop && to != last; ++i) *to = i, to += bytes[i] != 0;
      }
      for (; i < stop && to != last; ++i) {
        for (int axis = 0; axis < rank - 1; ++axis) to[axis] = outer[axis];
        to[rank - 1] = i - line;
        to += bytes[i] != 0 ? rank : 0;
      }
    }
  });
  return make_data(DType::i64, Shape{start.back(), rank}, places).to(x.device());
}

}  // namespace ebb
