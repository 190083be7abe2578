// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "cuda/library/kernels.h"

// Shared by gather and scatter.
namespace ebb::cuda {

inline int axis_of(const LibraryCall& call) { return static_cast<int>(call.attrs.i[0]); }

inline std::size_t bytes_of(const View& v) { return static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype); }

// typedef I, the index type.
inline std::string index_text(const View& index) {
  return index.dtype == DType::i32 ? "typedef i32 I;\n" : "typedef i64 I;\n";
}

// The elements of v selected by the index's coordinates other than `axis`, in the shape of the index.
inline View beside(const View& v, const Shape& index, int axis) {
  View out = v;
  out.shape = index;
  out.strides[axis] = 0;
  return out;
}

// The same elements with the given axis last.
inline View with_axis_last(const View& v, int axis) {
  View out = v;
  std::vector<std::int64_t> sizes;
  for (int d = 0, at = 0; d < v.shape.rank(); ++d) {
    if (d == axis) continue;
    sizes.push_back(v.shape[d]);
    out.strides[at++] = v.strides[d];
  }
  sizes.push_back(v.shape[axis]);
  out.shape = Shape(sizes);
  out.strides[v.shape.rank() - 1] = v.strides[axis];
  return out;
}

// Number of elements in the dimensions after the axis.
inline std::int64_t inner_of(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) n *= shape[d];
  return n;
}

// Rows of so many units (or packs) by groups of lanes; a lane takes up to `packs` of a tile, one group of lanes apart.
struct RowLanes {
  std::int64_t lanes, packs, tiles;
};
inline RowLanes lanes_for(std::int64_t units, std::int64_t most) {
  const auto lanes =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(units, 1, 32))));
  const std::int64_t per_lane = std::max<std::int64_t>(1, (units + lanes - 1) / lanes),
                     tiles = (per_lane + most - 1) / most;
  return {lanes, (per_lane + tiles - 1) / tiles, tiles};
}
inline std::int64_t lane_bits(const RowLanes& rows) { return std::countr_zero(static_cast<std::uint64_t>(rows.lanes)); }

}  // namespace ebb::cuda
