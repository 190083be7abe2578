// SPDX-License-Identifier: MIT
#include "cpu/library/copy.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "core/parallel.h"
#include "cpu/tile/elements.h"
#include "cpu/tile/few_bytes.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kTaskElements = 65536, kTile = 64;

// The iteration space of a copy with mergeable dimensions merged: sizes of 1 dropped, and a dimension that continues
// its inner neighbour in both tensors joined to it.
struct CopySpace {
  int rank = 0;
  std::int64_t size[Shape::kMaxRank], dst[Shape::kMaxRank], src[Shape::kMaxRank];

  CopySpace(const Shape& shape, const Strides& to, const Strides& from) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1) continue;
      const int last = rank - 1;
      if (rank > 0 && dst[last] == to[d] * shape[d] && src[last] == from[d] * shape[d]) {
        size[last] *= shape[d];
        dst[last] = to[d];
        src[last] = from[d];
        continue;
      }
      size[rank] = shape[d];
      dst[rank] = to[d];
      src[rank] = from[d];
      ++rank;
    }
    while (rank < 2) push_front();
  }
  // Adds a dimension of size 1, so that there are always rows and columns.
  void push_front() {
    for (int d = rank; d > 0; --d) size[d] = size[d - 1], dst[d] = dst[d - 1], src[d] = src[d - 1];
    size[0] = 1;
    dst[0] = src[0] = 0;
    ++rank;
  }
  void make_second_innermost(int d) {
    for (; d < rank - 2; ++d) {
      std::swap(size[d], size[d + 1]);
      std::swap(dst[d], dst[d + 1]);
      std::swap(src[d], src[d + 1]);
    }
  }
  // Offsets of plate number i (the innermost two dimensions).
  std::pair<std::int64_t, std::int64_t> plate(std::int64_t i) const {
    std::int64_t to = 0, from = 0;
    for (int d = rank - 3; d >= 0; --d) {
      to += i % size[d] * dst[d];
      from += i % size[d] * src[d];
      i /= size[d];
    }
    return {to, from};
  }
  // Offsets of one plate after the other, without divisions: a plate may be a dozen elements.
  class Plates {
   public:
    Plates(const CopySpace& space, std::int64_t first) : space_(space) {
      std::tie(to, from) = space.plate(first);
      for (int d = space.rank - 3; d >= 0; --d) {
        position_[d] = first % space.size[d];
        first /= space.size[d];
      }
    }
    void next() {
      for (int d = space_.rank - 3; d >= 0; --d) {
        to += space_.dst[d], from += space_.src[d];
        if (++position_[d] < space_.size[d]) return;
        to -= space_.dst[d] * space_.size[d], from -= space_.src[d] * space_.size[d];
        position_[d] = 0;
      }
    }
    std::int64_t to, from;

   private:
    const CopySpace& space_;
    std::int64_t position_[Shape::kMaxRank];
  };
  std::int64_t plates() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank - 2; ++d) n *= size[d];
    return n;
  }
};

template <class T>
void copy_row(T* dst, std::int64_t dst_step, const T* src, std::int64_t src_step, std::int64_t n) {
  if (dst_step == 1 && src_step == 1) {
    copy_bytes(dst, src, static_cast<std::size_t>(n) * sizeof(T));
  } else if (dst_step == 1 && src_step == 0 && *src == 0) {        // T is an integer: no bit is set
    std::memset(dst, 0, static_cast<std::size_t>(n) * sizeof(T));  // uses special instructions for whole cache lines
  } else if (dst_step == 1 && src_step == 0) {
    std::fill_n(dst, n, *src);
  } else {
    for (std::int64_t j = 0; j < n; ++j) dst[j * dst_step] = src[j * src_step];
  }
}

// Rows of N elements, a constant for the compiler: a row costs no call.
template <class T, int N>
void copy_short_rows(T* dst, std::int64_t dst_row, std::int64_t dst_step, const T* src, std::int64_t src_row,
                     std::int64_t src_step, std::int64_t rows) {
  if (dst_step == 1 && src_step == 1) {
    for (std::int64_t r = 0; r < rows; ++r) std::memcpy(dst + r * dst_row, src + r * src_row, N * sizeof(T));
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < N; ++j) dst[r * dst_row + j * dst_step] = src[r * src_row + j * src_step];
    }
  }
}
template <class T>
constexpr decltype(&copy_short_rows<T, 1>) kShortRows[] = {
    copy_short_rows<T, 1>, copy_short_rows<T, 2>, copy_short_rows<T, 3>, copy_short_rows<T, 4>,
    copy_short_rows<T, 5>, copy_short_rows<T, 6>, copy_short_rows<T, 7>, copy_short_rows<T, 8>};
constexpr std::int64_t kMostShort = 8;

// A tile whose source is dense along its rows' direction and its destination along its columns': goes through a buffer,
// so that both are accessed in whole runs (rows a power of two apart would fall on the same cache sets).
template <class T>
void copy_tile(T* dst, std::int64_t dst_row, const T* src, std::int64_t src_col, std::int64_t rows, std::int64_t cols) {
  T tile[kTile][kTile];
  for (std::int64_t c = 0; c < cols; ++c) {
    const T* from = src + c * src_col;
    for (std::int64_t r = 0; r < rows; ++r) tile[r][c] = from[r];
  }
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(dst + r * dst_row, tile[r], static_cast<std::size_t>(cols) * sizeof(T));
}

template <class T>
void copy_typed(T* dst, const T* src, CopySpace space) {
  const int inner = space.rank - 1, outer = space.rank - 2;
  bool crossed = false;  // source neighbours are along another dimension than the destination's: use square tiles
  if (space.src[inner] != 1 && space.src[inner] != 0 && space.dst[inner] == 1) {
    for (int d = 0; d < inner && !crossed; ++d) {
      if (space.src[d] == 1 && space.size[d] > 1) {
        space.make_second_innermost(d);
        crossed = true;
      }
    }
  }
  const std::int64_t rows = space.size[outer], cols = space.size[inner];
  const std::int64_t row_step =
      crossed ? kTile : std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, cols));
  const std::int64_t col_step = kTaskElements;
  const std::int64_t down = (rows + row_step - 1) / row_step, across = (cols + col_step - 1) / col_step;
  const std::int64_t pieces = down * across, plates = space.plates();
  // Small plates are taken several at a time.
  const std::int64_t group = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, rows * cols));
  const auto copy_piece = [&](std::int64_t to, std::int64_t from, std::int64_t piece) {
    const std::int64_t r0 = piece / across * row_step, r1 = std::min(rows, r0 + row_step);
    const std::int64_t c0 = piece % across * col_step, c1 = std::min(cols, c0 + col_step);
    if (cols <= kMostShort) {
      kShortRows<T>[cols - 1](dst + to + r0 * space.dst[outer], space.dst[outer], space.dst[inner],
                              src + from + r0 * space.src[outer], space.src[outer], space.src[inner], r1 - r0);
      return;
    }
    for (std::int64_t c = c0; crossed && c < c1; c += kTile) {
      copy_tile(dst + to + r0 * space.dst[outer] + c, space.dst[outer], src + from + r0 + c * space.src[inner],
                space.src[inner], r1 - r0, std::min(kTile, c1 - c));
    }
    for (std::int64_t r = r0; !crossed && r < r1; ++r) {
      copy_row(dst + to + r * space.dst[outer] + c0 * space.dst[inner], space.dst[inner],
               src + from + r * space.src[outer] + c0 * space.src[inner], space.src[inner], c1 - c0);
    }
  };
  parallel_for((plates + group - 1) / group * pieces, [&](std::int64_t task) {
    const std::int64_t first = task / pieces * group, last = std::min(plates, first + group);
    CopySpace::Plates at(space, first);
    for (std::int64_t plate = first; plate < last; ++plate, at.next()) copy_piece(at.to, at.from, task % pieces);
  });
}

View dense(const View& like, DType dtype, BufferPtr& keep, const char* what) {
  keep = BufferPtr::allocate(static_cast<std::size_t>(like.shape.numel()) * size_of(dtype), what);
  return {keep.data(), dtype, like.shape, contiguous_strides(like.shape)};
}

}  // namespace

void copy_elements(const View& dst, const View& src) {
  if (dst.shape.numel() == 0) return;
  with_element_size(dst.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    copy_typed(static_cast<T*>(dst.data), static_cast<const T*>(src.data),
               CopySpace(dst.shape, dst.strides, src.strides));
  });
}

void zero_elements(const View& dst) {
  alignas(8) static const std::byte zero[8] = {};
  copy_elements(dst, {const_cast<std::byte*>(zero), dst.dtype, dst.shape, Strides{}});
}

View packed(const View& src, BufferPtr& keep, const char* what) {
  if (is_contiguous(src.shape, src.strides)) return {src.data, src.dtype, src.shape, contiguous_strides(src.shape)};
  const View dst = dense(src, src.dtype, keep, what);
  copy_elements(dst, src);
  return dst;
}

View packed_as_f32(const View& src, BufferPtr& keep, const char* what) {
  BufferPtr bits;
  const View halves = packed(src, bits, what);
  const View dst = dense(src, DType::f32, keep, what);
  const std::int64_t n = src.shape.numel();
  parallel_for((n + kTaskElements - 1) / kTaskElements, [&](std::int64_t i) {
    const std::int64_t at = i * kTaskElements;
    halves_to_float(src.dtype, element_at(halves, at), 1, static_cast<float*>(dst.data) + at,
                    std::min(kTaskElements, n - at));
  });
  return dst;
}

std::byte* element_at(const View& view, std::int64_t offset) {
  return static_cast<std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

}  // namespace ebb::cpu
