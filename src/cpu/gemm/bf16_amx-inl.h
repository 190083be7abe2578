// SPDX-License-Identifier: MIT
// Products of bf16 by tile registers: packing, the walk over panels, and storing the sums. Included by a file that
// names its target instructions (AVX-512 with BW and VL) around the include, so that everything here may be inlined
// there; therefore no include guard and no includes, and nothing here may be used outside of that file.
//
// A tile of A is 16 rows of 32 of k, a tile of B 16 pairs of k of 16 columns: 1 KiB each. A panel of A is up to two
// tiles high, one of B up to two wide, and of a step of k it holds those one after the other:
//   A (w, p): p / 32 · 32 · width + w · 32 + p % 32
//   B (w, p): p / 32 · 32 · width + w / 16 · 512 + p % 32 / 2 · 32 + w % 16 · 2 + p % 2
// Rows are not padded (a tile can be lower), columns are to whole tiles, k to whole steps, with zeros.
//
// The unit is a class U with
//   configure(upper, lower)      rows of both tiles of A, lower 0: there is one; before anything else, on each thread
//   release()                    after everything else
//   multiply<tall, wide>(a, b, b_step, to, stride, before)   two tiles of A, or one; two of B, or one; after each step
//                                of k it stores some of the previous tile's sums
// A that is read in place is not packed; its part beyond whole steps of k is, as there are no zeros after it to
// multiply by.
namespace {

constexpr std::int64_t kSide = 16, kStep = 32, kTile = kSide * kStep;

// The rows of a panel of A: `steps` of k, and one more at `tail` unless that is null.
struct RowsOfTiles {
  std::int64_t steps;
  const BFloat16* data;
  std::int64_t apart, step;  // from row to row and from step to step
  const BFloat16* tail;      // rows kStep apart
};

// Transposes: `to` = 16 registers of 16 pairs of bf16; pair j of register i becomes pair i of register j.
inline void turn(__m512i (&x)[kSide]) {
  __m512i y[kSide];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // Now register 4·g + q holds, in quarter s, pair 4·s + q of registers 4·g .. 4·g + 3.
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    y[q] = _mm512_shuffle_i32x4(x[q], x[4 + q], 0x88);      // quarters 0, 2 of both
    y[4 + q] = _mm512_shuffle_i32x4(x[q], x[4 + q], 0xdd);  // 1, 3
    y[8 + q] = _mm512_shuffle_i32x4(x[8 + q], x[12 + q], 0x88);
    y[12 + q] = _mm512_shuffle_i32x4(x[8 + q], x[12 + q], 0xdd);
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    x[q] = _mm512_shuffle_i32x4(y[q], y[8 + q], 0x88);
    x[8 + q] = _mm512_shuffle_i32x4(y[q], y[8 + q], 0xdd);
    x[4 + q] = _mm512_shuffle_i32x4(y[4 + q], y[12 + q], 0x88);
    x[12 + q] = _mm512_shuffle_i32x4(y[4 + q], y[12 + q], 0xdd);
  }
}

// As bfloat16_from: to nearest, ties to even, NaN stays NaN.
inline __m256i rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(near, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
}

template <class Mask>
Mask first(std::int64_t count) {
  constexpr int kBits = 8 * sizeof(Mask);
  return count >= kBits ? static_cast<Mask>(~Mask{0})
                        : static_cast<Mask>((Mask{1} << std::max<std::int64_t>(0, count)) - 1);
}

// The first `count` of 16, or of 32, zeros after them.
inline __m256i load_16(const BFloat16* from, std::int64_t count) {
  return _mm256_maskz_loadu_epi16(first<__mmask16>(count), from);
}
inline __m256i load_16(const float* from, std::int64_t count) {
  return rounded(_mm512_maskz_loadu_ps(first<__mmask16>(count), from));
}
inline __m512i load_32(const BFloat16* from, std::int64_t count) {
  return _mm512_maskz_loadu_epi16(first<__mmask32>(count), from);
}
inline __m512i load_32(const float* from, std::int64_t count) {
  const __m256i lower = load_16(from, count);
  return count <= 16 ? _mm512_zextsi256_si512(lower)
                     : _mm512_inserti64x4(_mm512_zextsi256_si512(lower), load_16(from + 16, count - 16), 1);
}

inline BFloat16 as_bf16(BFloat16 x) { return x; }
inline BFloat16 as_bf16(float x) { return bfloat16_from(x); }

// At most 16 of the width and 32 of k: register w holds the pairs of k of w, or register q pair q of all w.
template <bool kPairsTogether, class S>
void load_tile(const S* from, std::int64_t wide_stride, std::int64_t depth_stride, std::int64_t count,
               std::int64_t depth, __m512i (&tile)[kSide]) {
  if (wide_stride == 1 && depth_stride != 1) {
    for (std::int64_t q = 0; q < kSide; ++q) {
      const S* row = from + 2 * q * depth_stride;
      const __m256i even = 2 * q < depth ? load_16(row, count) : _mm256_setzero_si256();
      const __m256i odd = 2 * q + 1 < depth ? load_16(row + depth_stride, count) : _mm256_setzero_si256();
      tile[q] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
    }
    if constexpr (kPairsTogether) turn(tile);
    return;
  }
  if (depth_stride == 1) {
    for (std::int64_t w = 0; w < kSide; ++w)
      tile[w] = w < count ? load_32(from + w * wide_stride, depth) : _mm512_setzero_si512();
  } else {
    alignas(64) BFloat16 row[kStep] = {};
    for (std::int64_t w = 0; w < kSide; ++w) {
      for (std::int64_t p = 0; w < count && p < depth; ++p) row[p] = as_bf16(from[w * wide_stride + p * depth_stride]);
      tile[w] = w < count ? _mm512_load_si512(row) : _mm512_setzero_si512();
    }
  }
  if constexpr (!kPairsTogether) turn(tile);
}

// Tiles in memory order.
template <bool kRows, class S>
void pack_tiles(const S* from, const GemmSource& source, std::int64_t wide, std::int64_t depth, BFloat16* to) {
  constexpr std::int64_t kPanel = 2 * kSide;
  const std::int64_t length = (depth + kStep - 1) / kStep * kStep;
  const auto pack_one = [&](std::int64_t w, std::int64_t p) {
    const std::int64_t panel = w / kPanel * kPanel, left = std::min(kPanel, wide - panel);
    const std::int64_t width = kRows ? left : (left + kSide - 1) / kSide * kSide;
    const std::int64_t count = std::min(kSide, wide - w);
    __m512i tile[kSide];
    load_tile<kRows>(from + w * source.wide_stride + p * source.depth_stride, source.wide_stride, source.depth_stride,
                     count, std::min(kStep, depth - p), tile);
    BFloat16* place = to + panel * length + p * width + w % kPanel * kStep;
    for (std::int64_t i = 0; i < (kRows ? count : kSide); ++i) _mm512_storeu_si512(place + i * kStep, tile[i]);
  };
  if (source.wide_stride == 1) {
    for (std::int64_t p = 0; p < depth; p += kStep) {
      for (std::int64_t w = 0; w < wide; w += kSide) pack_one(w, p);
    }
  } else {
    for (std::int64_t w = 0; w < wide; w += kSide) {
      for (std::int64_t p = 0; p < depth; p += kStep) pack_one(w, p);
    }
  }
}

template <bool kRows>
void pack(const GemmSource& source, std::int64_t wide, std::int64_t depth, BFloat16* to) {
  if (source.dtype == DType::bf16)
    return pack_tiles<kRows>(static_cast<const BFloat16*>(source.data), source, wide, depth, to);
  pack_tiles<kRows>(static_cast<const float*>(source.data), source, wide, depth, to);
}

inline std::int64_t packed_rows(std::int64_t rows) { return rows; }
inline std::int64_t packed_cols(std::int64_t cols) { return (cols + kSide - 1) / kSide * kSide; }

// Both vectors of a row of a tile, rounded as by `rounded`.
inline __m512i rounded_32(__m512 x, __m512 y) {
  const __m512i one = _mm512_set1_epi32(1), almost_half = _mm512_set1_epi32(0x7fff),
                quiet = _mm512_set1_epi32(0x400000);
  const auto upper = [&](__m512 z) {
    const __m512i bits = _mm512_castps_si512(z), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(odd, almost_half));
    const __mmask16 none = _mm512_cmp_ps_mask(z, z, _CMP_UNORD_Q);
    return _mm512_srli_epi32(_mm512_mask_or_epi32(near, none, bits, quiet), 16);
  };
  // Packed within each quarter: four of x, four of y.
  const __m512i mixed = _mm512_packus_epi32(upper(x), upper(y));
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
}

// Sums of a tile of C on their way to memory. That is work for the vector units, which are otherwise idle while the
// next tile is computed: so it is interleaved, some rows at each step of k.
class FinishedTile {
 public:
  FinishedTile() = default;
  FinishedTile(const float* sums, std::int64_t m, std::int64_t n, float alpha, const GemmResult<float>& to)
      : sums_(sums), m_(m), n_(n), alpha_(alpha), to_(to) {}

  void write_rows(std::int64_t count) {
    for (const std::int64_t end = std::min(m_, row_ + count); row_ < end; ++row_) write_row();
  }
  void write_rest() { write_rows(m_); }

 private:
  void write_row() const {
    const auto left = first<__mmask16>(n_), right = first<__mmask16>(n_ - kSide);
    const float* const from = sums_ + row_ * 2 * kSide;
    const __m512 scale = _mm512_set1_ps(alpha_);
    __m512 x = _mm512_mul_ps(_mm512_load_ps(from), scale);
    __m512 y = _mm512_mul_ps(_mm512_maskz_load_ps(right, from + kSide), scale);
    if (to_.add) {
      const float* const c = to_.c + row_ * to_.stride;
      x = _mm512_add_ps(_mm512_maskz_loadu_ps(left, c), x);
      y = _mm512_add_ps(_mm512_maskz_loadu_ps(right, c + kSide), y);
    }
    if (to_.halves) {
      const auto both = static_cast<__mmask32>(left | static_cast<__mmask32>(right) << kSide);
      _mm512_mask_storeu_epi16(to_.halves + row_ * to_.halves_stride, both, rounded_32(x, y));
    } else {
      _mm512_mask_storeu_ps(to_.c + row_ * to_.stride, left, x);
      _mm512_mask_storeu_ps(to_.c + row_ * to_.stride + kSide, right, y);
    }
  }

  const float* sums_ = nullptr;  // rows 2 · kSide apart
  std::int64_t row_ = 0, m_ = 0, n_ = 0;
  float alpha_ = 1;
  GemmResult<float> to_{};
};

template <class U>
void multiply(std::int64_t rows, std::int64_t cols, std::int64_t depth, float alpha, const GemmPanels<BFloat16>& a,
              const GemmPanels<BFloat16>& b, const GemmResult<float>& result) {
  constexpr std::int64_t kPanel = 2 * kSide;
  const std::int64_t steps = (depth + kStep - 1) / kStep;
  const std::int64_t across = (cols + kPanel - 1) / kPanel, tiles = (rows + kPanel - 1) / kPanel * across;
  alignas(64) float sums[2][kPanel * kPanel];  // of this tile, and of the one before
  bool other = false;
  FinishedTile before;
  for (std::int64_t i = 0; i < rows; i += kPanel) {
    const std::int64_t m = std::min(kPanel, rows - i);
    if (i == 0 || m < kPanel) U::configure(std::min(m, kSide), std::max<std::int64_t>(0, m - kSide));
    const BFloat16* const tail = a.tails ? a.tails + i * kStep : nullptr;
    const RowsOfTiles from_a = a.apart != 1 ? RowsOfTiles{depth / kStep, a.data + i * a.apart, a.apart, kStep, tail}
                                            : RowsOfTiles{steps, m < kPanel ? a.last : a.data + i / kPanel * a.distance,
                                                          kStep, m * kStep, tail};
    for (std::int64_t j = 0; j < cols; j += kPanel) {
      const std::int64_t n = std::min(kPanel, cols - j), width = packed_cols(n);
      const BFloat16* from_b = n < kPanel ? b.last : b.data + j / kPanel * b.distance;
      const GemmResult<float> to = result.from(i, j);
      b.soon.fetch(i / kPanel * across + j / kPanel, tiles);
      // Prefetched while the sums are computed: otherwise half of the time is spent waiting for it.
      for (std::int64_t r = 0; r < m; ++r) {
        const char* line = to.add || !to.halves ? reinterpret_cast<const char*>(to.c + r * to.stride)
                                                : reinterpret_cast<const char*>(to.halves + r * to.halves_stride);
        __builtin_prefetch(line, 1);
        if (to.add || !to.halves) __builtin_prefetch(line + 64, 1);
      }
      const bool in_place = !to.add && !to.halves && alpha == 1.0f && n == width;
      float* place = in_place ? to.c : sums[other];
      const std::int64_t stride = in_place ? to.stride : kPanel;
      const auto make = m > kSide
                            ? (n > kSide ? U::template multiply<true, true> : U::template multiply<true, false>)
                            : (n > kSide ? U::template multiply<false, true> : U::template multiply<false, false>);
      make(from_a, from_b, width * kStep, place, stride, before);
      before.write_rest();
      before = in_place ? FinishedTile() : FinishedTile(place, m, n, alpha, to);
      other = !other;
    }
  }
  U::release();
  before.write_rest();
}

// Blocks of 1024 of k. A panel of A then does not stay in the level-1 cache, but sums are reloaded half as often as
// with 512: on a core of Emerald Rapids 1024³ took 2.4 instead of 3.1 ms.
template <class U>
constexpr GemmBf16Tiles amx_tiles() {
  return {{.rows = 2 * kSide,
           .cols = 2 * kSide,
           .lanes = kSide,
           .group = kStep,
           .most_depth = 1024,
           .bytes = sizeof(BFloat16),
           .rows_stay = true,
           .reads_rows = true},
          packed_rows,
          packed_cols,
          pack<true>,
          pack<false>,
          multiply<U>};
}

}  // namespace
