// SPDX-License-Identifier: MIT
// Shared by the tiles of bf16 products of all processors: packing and the walk over panels. Included by each file of
// tiles inside its own region of target instructions, so that everything here may be inlined there; therefore no
// include guard and no includes, and nothing here may be used outside of that file.
//
// A processor is a class P with
//   kRows, kCols, kGroup            of a tile, and of k
//   panel_rows(m), panel_cols(n)    how wide a panel of m rows or n columns is packed
//   Tile tile(m, n)                 the tile for such panels
//   pack_depth(from, stride, count, width, depth, to), pack_wide(..)  the depth, or the width, is dense: packs whole
//   groups of
//     whole blocks and says with Packed how far it came; S is BFloat16, or float, which is rounded
namespace {

using Tile = void (*)(std::int64_t groups, float alpha, const BFloat16* a, const BFloat16* b,
                      const GemmResult<float>& to);

struct Packed {
  std::int64_t wide, depth;
};

inline BFloat16 as_bf16(BFloat16 x) { return x; }
inline BFloat16 as_bf16(float x) { return bfloat16_from(x); }

// Elements (w, p) with w from `wide` or p from `depth` on, up to the ends of the panel.
template <class P, class S>
void pack_rest(const S* from, std::int64_t wide_stride, std::int64_t depth_stride, Packed done, std::int64_t count,
               std::int64_t width, std::int64_t depth, BFloat16* to) {
  const std::int64_t end = (depth + P::kGroup - 1) / P::kGroup * P::kGroup;
  const auto put = [&](std::int64_t w, std::int64_t p) {
    to[p / P::kGroup * P::kGroup * width + w * P::kGroup + p % P::kGroup] =
        w < count && p < depth ? as_bf16(from[w * wide_stride + p * depth_stride]) : BFloat16{};
  };
  for (std::int64_t p = 0; p < done.depth && done.wide < width; ++p) {
    for (std::int64_t w = done.wide; w < width; ++w) put(w, p);
  }
  for (std::int64_t p = done.depth; p < end; ++p) {
    for (std::int64_t w = 0; w < width; ++w) put(w, p);
  }
}

// Panels of kWidth, the last one `last` wide.
template <class P, std::int64_t kWidth, class S>
void pack_panels(const S* from, const GemmSource& source, std::int64_t wide, std::int64_t last, std::int64_t depth,
                 BFloat16* to) {
  const std::int64_t wide_stride = source.wide_stride, depth_stride = source.depth_stride;
  const std::int64_t panel_size = kWidth * ((depth + P::kGroup - 1) / P::kGroup * P::kGroup);
  // Dense along the width: a few steps of k for all panels, then the next, so that runs in memory stay long.
  const std::int64_t steps = wide_stride == 1 ? 4 * P::kGroup : depth;
  for (std::int64_t p = 0; p < depth; p += steps) {
    const std::int64_t part = std::min(steps, depth - p);
    for (std::int64_t w = 0; w < wide; w += kWidth) {
      const std::int64_t count = std::min(kWidth, wide - w), width = count < kWidth ? last : kWidth;
      const S* panel = from + w * wide_stride + p * depth_stride;
      BFloat16* place = to + w / kWidth * panel_size + p * width;
      Packed done{0, 0};
      if (wide_stride == 1) {
        done = P::pack_wide(panel, depth_stride, count, width, part, place);
      } else if (depth_stride == 1) {
        done = P::pack_depth(panel, wide_stride, count, width, part, place);
      }
      pack_rest<P>(panel, wide_stride, depth_stride, done, count, width, part, place);
    }
  }
}

template <class P, std::int64_t kWidth>
void pack_source(const GemmSource& source, std::int64_t wide, std::int64_t last, std::int64_t depth, BFloat16* to) {
  if (source.dtype == DType::bf16)
    return pack_panels<P, kWidth>(static_cast<const BFloat16*>(source.data), source, wide, last, depth, to);
  pack_panels<P, kWidth>(static_cast<const float*>(source.data), source, wide, last, depth, to);
}

template <class P>
void pack_rows(const GemmSource& from, std::int64_t rows, std::int64_t depth, BFloat16* to) {
  pack_source<P, P::kRows>(from, rows, P::panel_rows(rows % P::kRows), depth, to);
}
template <class P>
void pack_cols(const GemmSource& from, std::int64_t cols, std::int64_t depth, BFloat16* to) {
  pack_source<P, P::kCols>(from, cols, P::panel_cols(cols % P::kCols), depth, to);
}
template <class P>
std::int64_t packed_rows(std::int64_t rows) {
  return rows / P::kRows * P::kRows + P::panel_rows(rows % P::kRows);
}
template <class P>
std::int64_t packed_cols(std::int64_t cols) {
  return cols / P::kCols * P::kCols + P::panel_cols(cols % P::kCols);
}

template <class P>
void multiply(std::int64_t rows, std::int64_t cols, std::int64_t depth, float alpha, const GemmPanels<BFloat16>& a,
              const GemmPanels<BFloat16>& b, const GemmResult<float>& result) {
  const std::int64_t groups = (depth + P::kGroup - 1) / P::kGroup;
  for (std::int64_t j = 0; j < cols; j += P::kCols) {
    const std::int64_t n = std::min(P::kCols, cols - j), packed_n = P::panel_cols(n);
    const BFloat16* from_b = n < P::kCols ? b.last : b.data + j / P::kCols * b.distance;
    for (std::int64_t i = 0; i < rows; i += P::kRows) {
      const std::int64_t m = std::min(P::kRows, rows - i), packed_m = P::panel_rows(m);
      const BFloat16* from_a = m < P::kRows ? a.last : a.data + i / P::kRows * a.distance;
      const Tile tile = P::tile(m, n);
      const GemmResult<float> to = result.from(i, j);
      for (std::int64_t r = 0; to.add && r < m; ++r) __builtin_prefetch(to.c + r * to.stride);
      if (m == packed_m && n == packed_n) {
        tile(groups, alpha, from_a, from_b, to);
        continue;
      }
      alignas(64) float whole[P::kRows * P::kCols];
      tile(groups, alpha, from_a, from_b, {whole, P::kCols, false});
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t s = 0; s < n; ++s) {
          const float made = whole[r * P::kCols + s], sum = to.add ? to.c[r * to.stride + s] + made : made;
          if (to.halves) {
            to.halves[r * to.halves_stride + s] = as_bf16(sum);
          } else {
            to.c[r * to.stride + s] = sum;
          }
        }
      }
    }
  }
}

}  // namespace
