// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb::cuda {

// The tree of sums, the same for every mapping (see the prelude): results depend on these numbers, so they are not
// tuning constants.
inline constexpr int kLeaf = 8;                        // neighbours that are added pairwise
inline constexpr int kLeaves = 8;                      // per lane
inline constexpr int kSegment = 32 * kLeaves * kLeaf;  // elements that a warp adds
inline constexpr int kGroup = 1024;                    // segments that are added together
inline constexpr int kChunk = 8;                       // consecutive segments per lane
inline constexpr std::int64_t kChunkRows = 8;          // rows that sums over rows add before they continue in f64
inline constexpr std::int64_t kLongChunkRows = 64;     // the same where a block loops over the rows of a group
inline constexpr int kChains = 64;                     // of groups of rows

}  // namespace ebb::cuda
