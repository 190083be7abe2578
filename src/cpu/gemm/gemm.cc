#include "cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/buffer.h"
#include "cpu/gemm/bf16.h"
#include "cpu/gemm/call.h"
#include "cpu/gemm/vector.h"
#include "cpu/tile/elements.h"
#include "ebb/memory.h"

// Blocks of both factors are packed into panels in the order the tiles read them, once, by all threads; then the
// threads share the blocks of C. How that is cut depends on the sizes, and the bits do not depend on how it is cut.
namespace ebb::cpu {
namespace {

template <class T>
void scale(std::int64_t m, std::int64_t n, T beta, T* c, std::int64_t c_stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * c_stride;
    if (beta == T(0)) {
      std::memset(row, 0, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  }
}

// ---- products of matrices
// ---------------------------------------------------------------------------------------------

// One factor: how it is packed into panels of P, and whether tiles may read it where it lies.
template <class T, class P>
struct Factor {
  const GemmTiles<T, P>& tiles;
  std::int64_t width;  // of a panel
  std::int64_t (*packed)(std::int64_t);
  void (*pack)(const GemmSource&, std::int64_t, std::int64_t, P*);
  bool shared, in_place;

  // Measured on Neoverse V1: panels in place save their packing, and pay with a page for each step of k. That is worth
  // it where they are read once or twice, or lie within a few pages anyway; at 128³ it loses 6 %, at 1024³ 20 %.
  Factor(const GemmTiles<T, P>& t, bool among_threads, bool of_rows, const GemmSource& source, std::int64_t wide,
         std::int64_t depth, std::int64_t passes)
      : tiles(t),
        width(of_rows ? t.rows : t.cols),
        packed(of_rows ? t.packed_rows : t.packed_cols),
        pack(of_rows ? t.pack_rows : t.pack_cols),
        shared(among_threads),
        in_place(t.group == 1 && source.wide_stride == 1 && source.dtype == dtype_of_type<P>::value &&
                 (passes <= 2 || wide * depth <= 4096)) {}

  // Whole lines of the cache, so that what is packed after it begins with one.
  std::int64_t space(std::int64_t wide, std::int64_t depth) const {
    constexpr std::int64_t kLine = 64 / sizeof(P);
    return pieces_of(tiles.packed_depth(depth) * (in_place ? packed(wide % width) : packed(wide)), kLine) * kLine;
  }

  // Of `wide` rows or columns, when all tasks have packed them to `to`.
  GemmPanels<P> panels(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (in_place) return {static_cast<const P*>(source.data), source.depth_stride, width, to};
    const std::int64_t length = tiles.packed_depth(depth);
    return {to, width, width * length, to + wide / width * width * length};
  }
  std::int64_t tasks(std::int64_t wide, std::int64_t depth) const {
    return in_place ? wide % width > 0 : pieces_of(wide, step(wide, depth));
  }
  void run(std::int64_t task, const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (in_place) return pack_from(source, wide / width * width, wide % width, depth, to);
    const std::int64_t first = task * step(wide, depth);
    pack_from(source, first, std::min(step(wide, depth), wide - first), depth, to + first * tiles.packed_depth(depth));
  }
  GemmPanels<P> pack_alone(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (!in_place) {
      pack(source, wide, depth, to);
    } else if (wide % width > 0) {
      run(0, source, wide, depth, to);
    }
    return panels(source, wide, depth, to);
  }

 private:
  std::int64_t step(std::int64_t wide, std::int64_t depth) const {
    constexpr std::int64_t kElements = 65536;  // a task
    return shared ? width * std::max<std::int64_t>(1, kElements / (width * depth)) : wide;
  }
  void pack_from(const GemmSource& source, std::int64_t first, std::int64_t count, std::int64_t depth, P* to) const {
    const std::int64_t bytes = first * source.wide_stride * static_cast<std::int64_t>(size_of(source.dtype));
    pack({static_cast<const std::byte*>(source.data) + bytes, source.dtype, source.wide_stride, source.depth_stride},
         count, depth, to);
  }
};

template <class P>
GemmPanels<P> part_of(const GemmPanels<P>& panels, std::int64_t first, std::int64_t width) {
  return {panels.data + first / width * panels.distance, panels.step, panels.distance, panels.last};
}

// Where tiles keep panels of A in the level-1 cache (GemmTiles::rows_stay), a task makes all blocks of k of a part of C
// that stays in the second cache. A factor that one task alone reads is packed by that task and nobody waits for it;
// the other is packed by all, for all blocks of k at once. Elsewhere one block of k follows the other, and both factors
// are packed by all.
template <class T, class P>
class MatrixProduct {
 public:
  MatrixProduct(const Call<T>& call, const GemmTiles<T, P>& tiles) : call_(call), tiles_(tiles) {
    cut();
    const std::int64_t size = static_cast<std::int64_t>(sizeof(P)), blocks = pieces_of(call.k, depth_);
    round_ = 1;
    if (tiles.rows_stay && blocks > 1) {
      const std::int64_t shared = ((own_a_ ? 0 : most_rows_) + (own_b_ ? 0 : most_cols_)) * depth_ * size;
      const std::int64_t own = ((own_a_ ? row_step_ : 0) + (own_b_ ? col_step_ : 0)) * depth_ * size;
      const std::int64_t most =
          std::min(kMostShared / std::max<std::int64_t>(1, shared), kMostOwn / std::max<std::int64_t>(1, own));
      round_ = std::clamp<std::int64_t>(most, 1, std::min(blocks, kMostRound));
    }
  }

  void run() {
    const std::int64_t space_a = own_a_ ? 0 : room(fa_, most_rows_, call_.m);
    const std::int64_t space_b = own_b_ ? 0 : room(fb_, most_cols_, call_.n);
    own_space_ = (own_a_ ? room(fa_, row_step_, call_.m) : 0) + (own_b_ ? room(fb_, col_step_, call_.n) : 0);
    const std::int64_t here = call_.shared ? 0 : own_space_;  // serial tasks follow each other: one room for all
    constexpr std::int64_t kLocal = 32768 / sizeof(P);        // small products need no memory from the pool
    alignas(64) P local[kLocal];
    BufferPtr memory;
    P* space = local;
    if (space_a + space_b + here > kLocal) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b + here) * sizeof(P), "matmul");
      space = reinterpret_cast<P*>(memory.data());
    }
    own_room_ = space + space_a + space_b;
    for (std::int64_t j = 0; j < call_.n; j += most_cols_) {
      for (std::int64_t p = 0; p < call_.k; p += round_ * depth_) {
        for (std::int64_t i = 0; i < call_.m; i += most_rows_) {
          const Part part{i,
                          j,
                          p,
                          std::min(most_rows_, call_.m - i),
                          std::min(most_cols_, call_.n - j),
                          pieces_of(std::min(round_ * depth_, call_.k - p), depth_)};
          pack(part, i == 0, space, space + space_a);
          multiply(part);
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kMostRound = 8;
  static constexpr std::int64_t kMostShared = 16 << 20, kMostOwn = 2 << 20;  // bytes that are packed at a time

  struct Part {
    std::int64_t i, j, p;             // where it begins
    std::int64_t rows, cols, blocks;  // blocks of k
  };

  // Tasks enough for all threads, if that leaves each some work.
  void cut() {
    const std::int64_t m = call_.m, n = call_.n;
    const bool stay = tiles_.rows_stay;
    most_rows_ = std::min(m, (stay ? 4096 : 1024) / tiles_.rows * tiles_.rows);
    most_cols_ = std::min(n, (stay ? 4096 : 2048) / tiles_.cols * tiles_.cols);
    row_step_ = tiles_.task_rows;
    col_step_ = tiles_.task_panels * tiles_.cols;
    const std::int64_t least_rows = 32, least_cols = tiles_.cols;
    const std::int64_t enough = call_.shared ? std::max<std::int64_t>(16, 4 * num_threads()) : 1;
    const auto flops = [&](std::int64_t rows, std::int64_t cols) {
      const std::int64_t depth = stay ? call_.k : depth_;
      return 2.0 * static_cast<double>(std::min(rows, m) * std::min(cols, n)) * static_cast<double>(depth);
    };
    const auto half = [](std::int64_t step, std::int64_t unit) { return pieces_of(step / 2, unit) * unit; };
    const auto rows_cut = [&] { return pieces_of(most_rows_, row_step_); };
    if (!stay) {
      const std::int64_t across = pieces_of(most_cols_, col_step_);
      while (row_step_ > least_rows && rows_cut() * across < enough &&
             flops(row_step_, col_step_) > 2 * tiles_.least_flops)
        row_step_ /= 2;
      return;
    }
    // All rows, and columns alone are cut: then B is packed by its reader. Or all columns.
    if (n > col_step_) {
      std::int64_t step = col_step_;
      while (step > 2 * least_cols && pieces_of(n, step) < enough && flops(m, step) > 2 * tiles_.least_flops)
        step = half(step, tiles_.cols);
      if (pieces_of(n, step) >= enough || flops(m, step) <= 2 * tiles_.least_flops) {
        col_step_ = step;
        row_step_ = pieces_of(most_rows_, tiles_.rows) * tiles_.rows;
      }
    }
    while (rows_cut() * pieces_of(n, col_step_) < enough && flops(row_step_, col_step_) > 2 * tiles_.least_flops) {
      const bool rows = row_step_ > least_rows, cols = std::min(col_step_, n) > least_cols;
      if (!rows && !cols) break;
      if (rows && (!cols || std::min(row_step_, m) >= std::min(col_step_, n))) {
        row_step_ = half(std::min(row_step_, pieces_of(m, tiles_.rows) * tiles_.rows), tiles_.rows);
      } else {
        col_step_ = half(std::min(col_step_, pieces_of(n, tiles_.cols) * tiles_.cols), tiles_.cols);
      }
    }
    own_b_ = row_step_ >= most_rows_;
    own_a_ = !own_b_ && col_step_ >= n;
    if (own_b_) most_cols_ = n;
    if (own_a_) most_rows_ = m;
  }

  // Blocks at the end may be of another width than those before: room for either.
  std::int64_t room(const Factor<T, P>& factor, std::int64_t step, std::int64_t all) const {
    const std::int64_t wide = std::min(step, all);
    return round_ * std::max(factor.space(wide, depth_), factor.space(all % wide, depth_));
  }

  std::int64_t depth_of(std::int64_t p) const { return std::min(depth_, call_.k - p); }

  void pack(const Part& part, bool also_b, P* to_a, P* to_b) {
    struct Job {
      const Factor<T, P>* factor;
      GemmSource source;
      std::int64_t wide, depth, tasks;
      P* to;
    } jobs[2 * kMostRound];
    std::int64_t count = 0, tasks = 0;
    const auto add = [&](const Factor<T, P>& factor, const GemmSource& source, std::int64_t wide, std::int64_t depth,
                         P* to) {
      jobs[count] = {&factor, source, wide, depth, factor.tasks(wide, depth), to};
      tasks += jobs[count++].tasks;
      return factor.panels(source, wide, depth, to);
    };
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
      if (also_b && !own_b_)
        b_[q] =
            add(fb_, call_.b_source(p, part.j), part.cols, depth, to_b + q * (room(fb_, most_cols_, call_.n) / round_));
      if (!own_a_)
        a_[q] =
            add(fa_, call_.a_source(part.i, p), part.rows, depth, to_a + q * (room(fa_, most_rows_, call_.m) / round_));
    }
    call_.for_each(tasks, [&](std::int64_t task) {
      const Job* job = jobs;
      while (task >= job->tasks) task -= job++->tasks;
      job->factor->run(task, job->source, job->wide, job->depth, job->to);
    });
  }

  void multiply(const Part& part) const {
    const std::int64_t across = pieces_of(part.cols, col_step_);
    call_.for_each(pieces_of(part.rows, row_step_) * across, [&](std::int64_t task) {
      const std::int64_t i = task / across * row_step_, j = task % across * col_step_;
      multiply_task(part, i, j, std::min(row_step_, part.rows - i), std::min(col_step_, part.cols - j));
    });
  }

  // Rows [i, i + rows) and columns [j, j + cols) of a part.
  void multiply_task(const Part& part, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) const {
    GemmPanels<P> a[kMostRound], b[kMostRound];
    BufferPtr memory;
    P* own = own_room_;
    if (call_.shared && own_space_ > 0) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(own_space_) * sizeof(P), "matmul");
      own = reinterpret_cast<P*>(memory.data());
    }
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
      if (own_a_) {
        a[q] = fa_.pack_alone(call_.a_source(part.i + i, p), rows, depth, own);
        own += fa_.space(rows, depth);
      } else {
        a[q] = part_of(a_[q], i, tiles_.rows);
      }
      if (own_b_) {
        b[q] = fb_.pack_alone(call_.b_source(p, part.j + j), cols, depth, own);
        own += fb_.space(cols, depth);
      } else {
        b[q] = part_of(b_[q], j, tiles_.cols);
      }
    }
    for (std::int64_t r = 0; r < rows; r += tiles_.task_rows) {
      for (std::int64_t q = 0; q < part.blocks; ++q) {
        const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
        const GemmResult<T> result{call_.c, call_.c_stride, call_.add || p > 0,
                                   p + depth < call_.k ? nullptr : call_.halves, call_.halves_stride};
        tiles_.multiply(std::min(tiles_.task_rows, rows - r), cols, depth, call_.alpha, part_of(a[q], r, tiles_.rows),
                        b[q], result.from(part.i + i + r, part.j + j));
      }
    }
  }

  const Call<T>& call_;
  const GemmTiles<T, P>& tiles_;
  const std::int64_t depth_ = gemm_depth(call_.k, tiles_.most_depth);
  std::int64_t most_rows_, most_cols_, row_step_, col_step_, round_;
  bool own_a_ = false, own_b_ = false;
  std::int64_t own_space_ = 0;
  P* own_room_ = nullptr;
  GemmPanels<P> a_[kMostRound], b_[kMostRound];
  const Factor<T, P> fa_{tiles_,
                         call_.shared,
                         true,
                         call_.a_source(0, 0),
                         std::min<std::int64_t>(call_.m, 1024),
                         depth_,
                         pieces_of(call_.n, tiles_.cols)};
  const Factor<T, P> fb_{tiles_,
                         call_.shared,
                         false,
                         call_.b_source(0, 0),
                         std::min<std::int64_t>(call_.n, 2048),
                         depth_,
                         pieces_of(call_.m, tiles_.rows)};
};

template <class T, class P>
void multiply_matrices(const Call<T>& call, const GemmTiles<T, P>& tiles) {
  MatrixProduct<T, P>(call, tiles).run();
}

// Few outputs, long sums (a weight gradient over a whole data set): the blocks of k are what there is to share. Each
// makes an [m, n] of its own; they are added in order, as everywhere.
template <class T, class P>
void multiply_deep(const Call<T>& call, const GemmTiles<T, P>& tiles) {
  const std::int64_t depth = gemm_depth(call.k, tiles.most_depth), blocks = pieces_of(call.k, depth),
                     outputs = call.m * call.n;
  const std::int64_t round = std::clamp<std::int64_t>((std::int64_t{1} << 20) / outputs, 16, blocks);
  const auto per_task =
      static_cast<std::int64_t>(std::max(1.0, tiles.least_flops / (call.flops() / static_cast<double>(blocks))));
  const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(round * outputs) * sizeof(T), "matmul");
  T* parts = reinterpret_cast<T*>(memory.data());
  for (std::int64_t first = 0; first < blocks; first += round) {
    const std::int64_t count = std::min(round, blocks - first);
    parallel_for(pieces_of(count, per_task), [&](std::int64_t task) {
      for (std::int64_t i = task * per_task; i < std::min(count, (task + 1) * per_task); ++i) {
        const std::int64_t p = (first + i) * depth;
        multiply_matrices(Call<T>{call.m, call.n, std::min(depth, call.k - p), call.alpha, call.a.from(0, p),
                                  call.b.from(p, 0), false, parts + i * outputs, call.n, false},
                          tiles);
      }
    });
    for (std::int64_t r = 0; r < call.m; ++r) {
      T* to = call.c + r * call.c_stride;
      for (std::int64_t i = 0; i < count; ++i) {
        const T* part = parts + (i * call.m + r) * call.n;
        const bool add = call.add || first + i > 0;
        for (std::int64_t j = 0; j < call.n; ++j) to[j] = add ? to[j] + part[j] : part[j];
      }
    }
  }
}

// A product that is over before anything is packed.
template <class T>
void multiply_tiny(const Call<T>& call) {
  for (std::int64_t i = 0; i < call.m; ++i) {
    for (std::int64_t j = 0; j < call.n; ++j) {
      const Matrix<T> row = call.a.from(i, 0), col = call.b.from(0, j);
      const T product = call.alpha * gemm_kernels<T>().dot(call.k, static_cast<const T*>(row.data), row.col_stride,
                                                           static_cast<const T*>(col.data), col.row_stride);
      T& out = call.c[i * call.c_stride + j];
      out = call.add ? out + product : product;
    }
  }
}

// Few outputs, and more of k than threads could share otherwise.
template <class T, class P>
bool is_deep(const Call<T>& call, const GemmTiles<T, P>& tiles) {
  constexpr std::int64_t kFew = 128;
  return call.shared && call.m <= kFew && call.n <= kFew && call.k >= 4 * tiles.most_depth;
}

template <class T, class P>
void multiply_panels(Call<T> call, const GemmTiles<T, P>& tiles) {
  call.shared = call.shared && call.flops() >= 2 * tiles.least_flops;
  is_deep(call, tiles) ? multiply_deep(call, tiles) : multiply_matrices(call, tiles);
}

template <class T>
bool is_vector(const Call<T>& call) {
  return call.m == 1 || call.n == 1;
}

// C's row = A's row · B, C's column = B's column · Aᵀ.
template <class T>
void multiply_vector(const Call<T>& call, const GemmVectors<T>& vectors) {
  if (call.m == 1) return VectorProduct<T>(vectors, call, call.n, call.a, call.b, 1).run();
  VectorProduct<T>(vectors, call, call.m, call.b.transposed(), call.a.transposed(), call.c_stride).run();
}

// The one place that decides: tiles of bf16 where there are some and both factors are, or may be, bf16. Also for
// vectors and for products of a few numbers, because a row must not depend on how many there are.
const GemmBf16Tiles* bf16_tiles_for(const Call<float>& call) {
  return call.a.as_bf16() && call.b.as_bf16() ? gemm_bf16_tiles() : nullptr;
}

template <class T>
void run(const Call<T>& call, T beta) {
  if (call.m == 0 || call.n == 0) return;
  if (beta != T(0) && beta != T(1)) scale(call.m, call.n, beta, call.c, call.c_stride);
  if (call.k == 0) {
    if (beta == T(0)) scale(call.m, call.n, beta, call.c, call.c_stride);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (const GemmBf16Tiles* tiles = bf16_tiles_for(call)) {
      const GemmVectors<float>* vectors = gemm_bf16_vectors();
      if (vectors && is_vector(call)) return multiply_vector(call, *vectors);
      return multiply_panels(call, *tiles);
    }
  }
  constexpr DType kOwn = dtype_of_type<T>::value;
  if (call.m * call.n * call.k <= 128 && call.a.dtype == kOwn && call.b.dtype == kOwn) return multiply_tiny(call);
  if (is_vector(call)) return multiply_vector(call, gemm_kernels<T>().vectors);
  multiply_panels(call, gemm_kernels<T>().tiles);
}

// A·B rounded to halves. Tiles of bf16 round their sums themselves, in the last block of k; else, and for the sums of
// the blocks before it, there is a part of the result in f32, 4 MiB at most.
void run_to_halves(Call<float> call, DType dtype, void* out, std::int64_t stride) {
  if (call.m == 0 || call.n == 0) return;
  const GemmBf16Tiles* tiles = dtype == DType::bf16 && call.k > 0 ? bf16_tiles_for(call) : nullptr;
  if (tiles && (is_deep(call, *tiles) || (is_vector(call) && gemm_bf16_vectors()))) tiles = nullptr;
  const auto place = [&](std::int64_t i, std::int64_t j) {
    return static_cast<std::byte*>(out) + (i * stride + j) * static_cast<std::int64_t>(size_of(dtype));
  };
  if (tiles && call.k <= tiles->most_depth) {
    call.halves = static_cast<BFloat16*>(out);
    call.halves_stride = stride;
    return multiply_panels(call, *tiles);
  }
  const std::int64_t most_cols = std::min<std::int64_t>(call.n, 2048);
  const std::int64_t fit = (std::int64_t{1} << 20) / most_cols / 64 * 64;
  const std::int64_t most_rows = std::min(call.m, std::max<std::int64_t>(64, fit));
  const BufferPtr scratch =
      BufferPtr::allocate(static_cast<std::size_t>(most_rows * most_cols) * sizeof(float), "matmul");
  for (std::int64_t i = 0; i < call.m; i += most_rows) {
    for (std::int64_t j = 0; j < call.n; j += most_cols) {
      Call<float> part = call;
      part.m = std::min(most_rows, call.m - i);
      part.n = std::min(most_cols, call.n - j);
      part.a = call.a.from(i, 0);
      part.b = call.b.from(0, j);
      part.c = reinterpret_cast<float*>(scratch.data());
      part.c_stride = part.n;
      if (tiles) {
        part.halves = reinterpret_cast<BFloat16*>(place(i, j));
        part.halves_stride = stride;
        multiply_panels(part, *tiles);
        continue;
      }
      run(part, 0.0f);
      constexpr std::int64_t kElements = 16384;
      const std::int64_t step = std::max<std::int64_t>(1, kElements / part.n);
      call.for_each(pieces_of(part.m, step), [&](std::int64_t task) {
        for (std::int64_t r = task * step; r < std::min(part.m, (task + 1) * step); ++r)
          float_to_halves(dtype, part.c + r * part.n, place(i + r, j), part.n);
      });
    }
  }
}

}  // namespace

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta, T* c,
          std::int64_t c_stride) {
  run(Call<T>{m, n, k, alpha, a, b, beta != T(0), c, c_stride, true}, beta);
}
template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b,
                 T beta, T* c, std::int64_t c_stride) {
  run(Call<T>{m, n, k, alpha, a, b, beta != T(0), c, c_stride, false}, beta);
}

void gemm_to_halves(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a, const Matrix<float>& b,
                    DType dtype, void* c, std::int64_t c_stride) {
  run_to_halves({m, n, k, 1.0f, a, b, false, nullptr, 0, true}, dtype, c, c_stride);
}
void gemm_to_halves_serial(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
                           const Matrix<float>& b, DType dtype, void* c, std::int64_t c_stride) {
  run_to_halves({m, n, k, 1.0f, a, b, false, nullptr, 0, false}, dtype, c, c_stride);
}

#define EBB_GEMM(T)                                                                                                    \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*,        \
                        std::int64_t);                                                                                 \
  template void gemm_serial<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*, \
                               std::int64_t);
EBB_GEMM(float)
EBB_GEMM(double)
#undef EBB_GEMM

}  // namespace ebb::cpu
