// SPDX-License-Identifier: MIT
#include "ebb/data/packing.h"

#include <algorithm>
#include <map>

#include "core/format_error.h"
#include "ebb/ops/create.h"

namespace ebb {
namespace {

struct Piece {
  const std::int64_t* tokens;  // and one more, the last target
  std::int64_t places;
};

}  // namespace

PackedSequences pack_sequences(const std::vector<std::vector<std::int64_t>>& sequences, std::int64_t length) {
  require(length > 0, "pack_sequences: the length of a row must be positive, got {}", length);
  std::vector<Piece> pieces;
  for (const auto& sequence : sequences) {
    const std::int64_t places = static_cast<std::int64_t>(sequence.size()) - 1;
    for (std::int64_t at = 0; at < places; at += length)
      pieces.push_back({sequence.data() + at, std::min(length, places - at)});
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.places > b.places; });
  std::vector<std::int64_t> used;                 // positions used in each row
  std::multimap<std::int64_t, std::size_t> room;  // rows by the positions they have left
  std::vector<std::int64_t> tokens, next, positions;
  const auto grow = [&] {
    tokens.insert(tokens.end(), static_cast<std::size_t>(length), 0);
    next.insert(next.end(), static_cast<std::size_t>(length), -100);
    positions.insert(positions.end(), static_cast<std::size_t>(length), 0);
    used.push_back(0);
    return used.size() - 1;
  };
  for (const Piece& piece : pieces) {
    const auto found = room.lower_bound(piece.places);
    const std::size_t row = found == room.end() ? grow() : found->second;
    if (found != room.end()) room.erase(found);
    const std::size_t first = row * static_cast<std::size_t>(length) + static_cast<std::size_t>(used[row]);
    for (std::int64_t k = 0; k < piece.places; ++k) {
      const std::size_t at = first + static_cast<std::size_t>(k);
      tokens[at] = piece.tokens[k];
      next[at] = piece.tokens[k + 1];
      positions[at] = k;
    }
    used[row] += piece.places;
    if (used[row] < length) room.emplace(length - used[row], row);
  }
  const Shape shape{static_cast<std::int64_t>(used.size()), length};
  return {from_data(tokens, shape), from_data(next, shape), from_data(positions, shape)};
}

}  // namespace ebb
