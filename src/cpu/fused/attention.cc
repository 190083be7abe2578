// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/attention_results.h"
#include "calls/attention.h"
#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"

// Attention by blocks of scores that stay in cache. Forward, a row keeps its largest score m and the sum l of e^(s − m)
// so far; a block with a larger score rescales the earlier sums:
//   m' = max(m, max s),   l' = l·e^(m − m') + Σ e^(s − m'),   o' = o·e^(m − m') + e^(s − m')·v,   at the end o/l
// Backward, P = e^(s − lse) is recomputed block by block, and with δ = Σ do·o
//   dv += Pᵀ·do,   ds = P∘(do·vᵀ − δ),   dq += scale·ds·k,   dk += scale·dsᵀ·q
// Blocks are cut by the shapes alone and added in order.
namespace ebb::cpu {
namespace {

constexpr std::int64_t kBlockRows = CpuModel::attention_rows, kBlockColumns = CpuModel::attention_columns;
constexpr std::int64_t kLeastRows = CpuModel::attention_least_rows, kRowsTogether = CpuModel::attention_rows_together;

// Blocks of rows: a short rest belongs to the last one.
std::int64_t blocks_of(std::int64_t rows) {
  return rows < kLeastRows ? std::min<std::int64_t>(rows, 1) : (rows - kLeastRows) / kBlockRows + 1;
}
std::int64_t rows_of_block(std::int64_t rows, std::int64_t block) {
  return block + 1 == blocks_of(rows) ? rows - block * kBlockRows : kBlockRows;
}

// Uninitialised memory of a block, from the pool: fresh memory, filled with zeros, took longer than a short sequence.
template <class T>
class Scratch {
 public:
  Scratch(std::int64_t rows, std::int64_t columns)
      : memory_(BufferPtr::allocate(static_cast<std::size_t>(std::max<std::int64_t>(rows * columns, 1)) * sizeof(T),
                                    "attention")) {}
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }

 private:
  BufferPtr memory_;
};

template <class T>
struct Sizes {
  const AttentionCall call;
  std::int64_t heads, batches, groups, rows, columns, width, values;  // H, B·H, H/K, T, S, D, E
  static constexpr RegType kType = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  const TileKernels& k = tile_kernels();
  ElementwiseFn exp = k.elementwise(Op::exp, kType, 0), add = k.elementwise(Op::add, kType, 0),
                mul = k.elementwise(Op::mul, kType, 0);
  // one number, repeated, is the second operand
  ElementwiseFn sub_number = k.elementwise(Op::sub, kType, 2), mul_number = k.elementwise(Op::mul, kType, 2);
  ReduceFn sum = k.reduce(Op::sum, kType, DType::f32), max = k.reduce(Op::max, kType, DType::f32);
  bool bf16;              // dtype of queries, keys and values
  const View* documents;  // bounds, [B, 2, T]

  // `options`: the first optional input.
  Sizes(const LibraryCall& c, const View& q, const View& key, const View& v, std::size_t options)
      : call(options_as<AttentionCall>(c.attrs)),
        heads(q.shape[1]),
        batches(q.shape[0] * heads),
        groups(key.shape[1] > 0 ? heads / key.shape[1] : 1),
        rows(q.shape[2]),
        columns(key.shape[2]),
        width(q.shape[3]),
        values(v.shape[3]),
        bf16(q.dtype == DType::bf16 && key.dtype == DType::bf16 && v.dtype == DType::bf16),
        documents(call.documents ? &c.inputs[options + call.mask] : nullptr) {}

  // A block as a factor. With bf16 factors it may be rounded to bf16: inputs are bf16 already, and weights and their
  // gradients have a relative error of 2^-9, which in sums of them is less than the rounding of the result.
  Matrix<T> factor(const T* data, std::int64_t row_stride, std::int64_t col_stride) const {
    return {data, row_stride, col_stride, dtype_of_type<T>::value, bf16};
  }

  // The row of a result where row i of matrix b begins; the next one is `heads` further.
  std::int64_t place(std::int64_t b, std::int64_t i, std::int64_t length) const {
    return (b / heads * length + i) * heads + b % heads;
  }

  // The matrix of keys and values for matrix b of queries.
  std::int64_t key_of(std::int64_t b) const { return b / groups; }

  // Where the document of position i begins (0), or where the next one does (1).
  std::int64_t bound(std::int64_t b, std::int64_t which, std::int64_t i) const {
    return *reinterpret_cast<const std::int32_t*>(element_at(
        *documents, b / heads * documents->strides[0] + which * documents->strides[1] + i * documents->strides[2]));
  }
  // Columns that any row of [first, first + count) of matrix b can see: [begins, visible).
  std::int64_t begins(std::int64_t b, std::int64_t first) const { return documents ? bound(b, 0, first) : 0; }
  std::int64_t visible(std::int64_t b, std::int64_t first, std::int64_t count) const {
    const std::int64_t all = documents ? bound(b, 1, first + count - 1) : columns;
    return call.causal ? std::min(all, first + count) : all;
  }
};

// Rows [first, first + count) of matrix b, dense in the compute type: the rows themselves if they already are.
template <class T>
const T* rows_of(const View& x, std::int64_t b, std::int64_t first, std::int64_t count, T* scratch) {
  const std::int64_t width = x.shape[3], heads = x.shape[1];
  const std::int64_t at = b / heads * x.strides[0] + b % heads * x.strides[1] + first * x.strides[2];
  if (size_of(x.dtype) == static_cast<int>(sizeof(T)) && (x.strides[3] == 1 || width == 1) &&
      (x.strides[2] == width || count == 1))
    return reinterpret_cast<const T*>(element_at(x, at));
  const LoadFn load = tile_kernels().load(x.dtype, Sizes<T>::kType);
  for (std::int64_t i = 0; i < count; ++i)
    load(scratch + i * width, element_at(x, at + i * x.strides[2]), x.strides[3], static_cast<std::size_t>(width));
  return scratch;
}

// A block of scores: scale·q·kᵀ + mask, −inf where a row must not attend.
template <class T>
void scores(const Sizes<T>& z, const View* mask, std::int64_t b, std::int64_t i, std::int64_t n, const T* q,
            std::int64_t j, std::int64_t m, const T* key, T* s, T* line) {
  gemm_serial<T>(n, m, z.width, static_cast<T>(z.call.scale), z.factor(q, z.width, 1), z.factor(key, 1, z.width), T(0),
                 s, m);
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (std::int64_t r = 0; r < n; ++r) {
    T* row = s + r * m;
    if (mask) {
      const std::byte* const at = element_at(*mask, b / z.heads * mask->strides[0] + b % z.heads * mask->strides[1] +
                                                        (i + r) * mask->strides[2] + j * mask->strides[3]);
      const bool in_place = mask->dtype == dtype_of_type<T>::value && mask->strides[3] == 1;
      if (!in_place) z.k.load(mask->dtype, Sizes<T>::kType)(line, at, mask->strides[3], static_cast<std::size_t>(m));
      z.add(row, row, in_place ? static_cast<const void*>(at) : line, nullptr, static_cast<std::size_t>(m));
    }
    if (z.call.causal) {
      for (std::int64_t c = std::max<std::int64_t>(0, i + r + 1 - j); c < m; ++c) row[c] = kNever;
    }
    if (z.documents) {
      const std::int64_t first = std::clamp<std::int64_t>(z.bound(b, 0, i + r) - j, 0, m);
      const std::int64_t end = std::clamp<std::int64_t>(z.bound(b, 1, i + r) - j, 0, m);
      std::fill(row, row + first, kNever);
      std::fill(row + end, row + m, kNever);
    }
  }
}

template <class T>
void forward(const LibraryCall& call) {
  const View &q = call.inputs[0], &key = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  const Sizes<T> z(call, q, key, v, 3);
  const View* mask = z.call.mask ? &call.inputs[3] : nullptr;
  T* lse = static_cast<T*>(call.outputs[1].data);
  const StoreFn store = z.k.store(Sizes<T>::kType, out.dtype);
  const std::int64_t blocks = blocks_of(z.rows);
  parallel_for(z.batches * blocks, [&](std::int64_t task) {
    const std::int64_t b = task / blocks, i = task % blocks * kBlockRows, n = rows_of_block(z.rows, task % blocks);
    const std::int64_t wide = std::min(kBlockColumns, z.columns);
    const Scratch<T> q_rows(n, z.width), k_rows(wide, z.width), v_rows(wide, z.values), s(n, wide), line(1, wide);
    std::vector<T> o(static_cast<std::size_t>(n * z.values), T(0));
    std::vector<double> largest(static_cast<std::size_t>(n), -std::numeric_limits<double>::infinity()),
        total(static_cast<std::size_t>(n), 0.0);
    const T* q_block = rows_of(q, b, i, n, q_rows.data());
    const std::int64_t seen = z.visible(b, i, n), begin = z.begins(b, i) / kBlockColumns * kBlockColumns;
    for (std::int64_t j = begin; j < seen; j += kBlockColumns) {
      const std::int64_t m = std::min(kBlockColumns, seen - j);
      scores(z, mask, b, i, n, q_block, j, m, rows_of(key, z.key_of(b), j, m, k_rows.data()), s.data(), line.data());
      for (std::int64_t first = 0; first < n; first += kRowsTogether) {
        const std::int64_t count = std::min(kRowsTogether, n - first);
        T* const rows = s.data() + first * m;
        double top[kRowsTogether], here[kRowsTogether] = {};
        std::copy_n(largest.begin() + first, count, top);
        z.max(top, rows, static_cast<std::size_t>(count), static_cast<std::size_t>(m));
        for (std::int64_t r = 0; r < count; ++r) {  // no score so far: all are -inf, and their exponentials 0
          const T shift = top[r] == -std::numeric_limits<double>::infinity() ? T(0) : static_cast<T>(top[r]);
          z.sub_number(rows + r * m, rows + r * m, &shift, nullptr, static_cast<std::size_t>(m));
        }
        z.exp(rows, rows, nullptr, nullptr, static_cast<std::size_t>(count * m));
        z.sum(here, rows, static_cast<std::size_t>(count), static_cast<std::size_t>(m));
        for (std::int64_t r = 0; r < count; ++r) {
          const auto at = static_cast<std::size_t>(first + r);
          const double rescale = largest[at] == top[r] ? 1.0 : std::exp(largest[at] - top[r]);
          total[at] = total[at] * rescale + here[r];
          largest[at] = top[r];
          if (rescale == 1 || j == begin) continue;  // nothing is summed yet
          const T factor = static_cast<T>(rescale);
          T* const sums = o.data() + static_cast<std::int64_t>(at) * z.values;
          z.mul_number(sums, sums, &factor, nullptr, static_cast<std::size_t>(z.values));
        }
      }
      gemm_serial<T>(n, z.values, m, T(1), z.factor(s.data(), m, 1),
                     z.factor(rows_of(v, z.key_of(b), j, m, v_rows.data()), z.values, 1), T(1), o.data(), z.values);
    }
    for (std::int64_t r = 0; r < n; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const T scale = total[at] == 0 ? T(0) : static_cast<T>(1 / total[at]);
      for (std::int64_t e = 0; e < z.values; ++e) o[static_cast<std::size_t>(r * z.values + e)] *= scale;
      lse[b * z.rows + i + r] = static_cast<T>(largest[at] + std::log(total[at]));
      store(element_at(out, z.place(b, i + r, z.rows) * z.values), 1, o.data() + r * z.values,
            static_cast<std::size_t>(z.values));
    }
  });
}

template <class T>
class Backward {
 public:
  explicit Backward(const LibraryCall& call)
      : call_(call),
        g_(call.inputs[0]),
        q_(call.inputs[1]),
        k_(call.inputs[2]),
        v_(call.inputs[3]),
        o_(call.inputs[4]),
        z_(call, q_, k_, v_, 6),
        mask_(z_.call.mask ? &call.inputs[6] : nullptr) {}

  void run() {
    BufferPtr keep, sums[3];
    lse_ = static_cast<const T*>(packed(call_.inputs[5], keep, "attention").data);
    const std::array<View, 3> results = attention_results(call_);
    const auto output_of = [&](std::size_t i) { return call_.outputs.size() == 1 ? 0 : i; };
    for (std::size_t i : {0, 1, 2}) {  // sums in the compute type: the results themselves, or separate buffers
      const View &out = call_.outputs[output_of(i)], &result = results[i];
      T* first = static_cast<T*>(out.data);
      BufferPtr& beside = sums[output_of(i)];
      const std::size_t bytes = static_cast<std::size_t>(out.shape.numel()) * sizeof(T);
      if (is_half(out.dtype)) {
        if (!beside) beside = BufferPtr::allocate(bytes, "attention");
        first = reinterpret_cast<T*>(beside.data());
      }
      if (bytes > 0 && result.data == out.data) std::memset(first, 0, bytes);
      const std::ptrdiff_t before = static_cast<std::byte*>(result.data) - static_cast<std::byte*>(out.data);
      to_[i] = {first + before / static_cast<std::ptrdiff_t>(size_of(out.dtype)), result.strides[0], result.strides[1],
                result.shape[3], result.shape[2]};
    }
    const std::int64_t down = blocks_of(z_.rows), across = (z_.columns + kBlockColumns - 1) / kBlockColumns;
    // δ, one number per row
    delta_.resize(static_cast<std::size_t>(z_.batches * z_.rows));
    parallel_for(z_.batches * down, [&](std::int64_t task) {
      const std::int64_t b = task / down, i = task % down * kBlockRows, n = rows_of_block(z_.rows, task % down);
      const Scratch<T> g_rows(n, z_.values), o_rows(n, z_.values);
      const T *g = rows_of(g_, b, i, n, g_rows.data()), *o = rows_of(o_, b, i, n, o_rows.data());
      for (std::int64_t r = 0; r < n; ++r) {
        double total = 0;
        z_.k.dot(Sizes<T>::kType)(&total, g + r * z_.values, o + r * z_.values, 1, static_cast<std::size_t>(z_.values));
        delta_[static_cast<std::size_t>(b * z_.rows + i + r)] = static_cast<T>(total);
      }
    });
    const std::int64_t keys = z_.batches / z_.groups;
    if (keys >= 16) {
      parallel_for(keys, [&](std::int64_t key) {
        for (std::int64_t b = key * z_.groups; b < (key + 1) * z_.groups; ++b)
          blocks(b, 0, down, 0, across, true, true);
      });
    } else {  // scores are computed twice, so that threads share the rows of dq, then those of dk and dv
      parallel_for(z_.batches * down, [&](std::int64_t task) {
        blocks(task / down, task % down, task % down + 1, 0, across, true, false);
      });
      parallel_for(keys * across, [&](std::int64_t task) {
        for (std::int64_t b = task / across * z_.groups; b < (task / across + 1) * z_.groups; ++b)
          blocks(b, 0, down, task % across, task % across + 1, false, true);
      });
    }
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      const View& out = call_.outputs[i];
      if (is_half(out.dtype))
        z_.k.store(Sizes<T>::kType, out.dtype)(out.data, 1, reinterpret_cast<const T*>(sums[i].data()),
                                               static_cast<std::size_t>(out.shape.numel()));
    }
  }

 private:
  // Sums of a result, [B, T, H, D].
  struct Sums {
    T* data = nullptr;
    std::int64_t batch_step = 0, row_step = 0, width = 0, heads = 1;
  };
  static T* row_of(const Sums& to, std::int64_t b, std::int64_t i) {
    return to.data + b / to.heads * to.batch_step + i * to.row_step + b % to.heads * to.width;
  }

  // Either way, each element of dq gets its blocks in the order of columns, each of dk and dv in the order of rows.
  void blocks(std::int64_t b, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right, bool rows,
              bool columns) const {
    const Sizes<T>& z = z_;
    const T scale = static_cast<T>(z.call.scale);
    const std::int64_t high = std::min(kBlockRows + kLeastRows - 1, z.rows), wide = std::min(kBlockColumns, z.columns);
    const Scratch<T> q_rows(high, z.width), g_rows(high, z.values), k_rows(wide, z.width), v_rows(wide, z.values),
        p(high, wide), ds(high, wide), line(1, wide);
    for (std::int64_t jb = left; jb < right; ++jb) {
      const std::int64_t j = jb * kBlockColumns, all = std::min(kBlockColumns, z.columns - j);
      const T* key = rows_of(k_, z.key_of(b), j, all, k_rows.data());
      const T* value = rows_of(v_, z.key_of(b), j, all, v_rows.data());
      for (std::int64_t ib = top; ib < bottom; ++ib) {
        const std::int64_t i = ib * kBlockRows, n = rows_of_block(z.rows, ib);
        const std::int64_t m = std::min(all, z.visible(b, i, n) - j);
        if (m <= 0 || z.begins(b, i) >= j + m) continue;
        const T *q = rows_of(q_, b, i, n, q_rows.data()), *g = rows_of(g_, b, i, n, g_rows.data());
        scores(z, mask_, b, i, n, q, j, m, key, p.data(), line.data());
        for (std::int64_t first = 0; first < n; first += kRowsTogether) {
          const std::int64_t count = std::min(kRowsTogether, n - first);
          T* const rows_here = p.data() + first * m;
          for (std::int64_t r = 0; r < count; ++r) {
            const T lse = lse_[b * z.rows + i + first + r];
            const T shift = lse == -std::numeric_limits<T>::infinity() ? T(0) : lse;
            z.sub_number(rows_here + r * m, rows_here + r * m, &shift, nullptr, static_cast<std::size_t>(m));
          }
          z.exp(rows_here, rows_here, nullptr, nullptr, static_cast<std::size_t>(count * m));
        }
        if (columns)
          gemm_serial<T>(m, z.values, n, T(1), z.factor(p.data(), 1, m), z.factor(g, z.values, 1), T(1),
                         row_of(to_[2], z.key_of(b), j), to_[2].row_step);
        gemm_serial<T>(n, m, z.values, T(1), z.factor(g, z.values, 1), z.factor(value, 1, z.values), T(0), ds.data(),
                       m);
        for (std::int64_t r = 0; r < n; ++r) {
          const T delta = delta_[static_cast<std::size_t>(b * z.rows + i + r)];
          T* row = ds.data() + r * m;
          z.sub_number(row, row, &delta, nullptr, static_cast<std::size_t>(m));
        }
        z.mul(ds.data(), ds.data(), p.data(), nullptr, static_cast<std::size_t>(n * m));
        if (rows)
          gemm_serial<T>(n, z.width, m, scale, z.factor(ds.data(), m, 1), z.factor(key, z.width, 1), T(1),
                         row_of(to_[0], b, i), to_[0].row_step);
        if (columns)
          gemm_serial<T>(m, z.width, n, scale, z.factor(ds.data(), 1, m), z.factor(q, z.width, 1), T(1),
                         row_of(to_[1], z.key_of(b), j), to_[1].row_step);
      }
    }
  }

  const LibraryCall& call_;
  const View &g_, &q_, &k_, &v_, &o_;
  const Sizes<T> z_;
  const View* mask_;
  const T* lse_ = nullptr;
  Sums to_[3] = {};
  std::vector<T> delta_;
};

}  // namespace

void run_attention(const LibraryCall& call) {
  if (call.inputs[0].dtype == DType::f64) return forward<double>(call);
  return forward<float>(call);
}

void run_attention_gradient(const LibraryCall& call) {
  if (call.inputs[1].dtype == DType::f64) return Backward<double>(call).run();
  return Backward<float>(call).run();
}

}  // namespace ebb::cpu
