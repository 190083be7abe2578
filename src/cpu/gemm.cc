#include "cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/gemm_kernels.h"
#include "cpu/tile_kernels.h"

// Blocks of both factors are packed into panels in the order the tiles read them, once, by all threads; then the
// threads share the blocks of C. How that is cut depends on the sizes, and the bits do not depend on how it is cut.
namespace ebb::cpu {
namespace {

// Packed at a time: 1.5 MiB of A and 3 MiB of B in f32.
constexpr std::int64_t kMostRows = 1024, kMostCols = 2048;
// A task of the product: its rows of A fit in the second cache with room to spare.
constexpr std::int64_t kTaskRows = 256, kTaskPanels = 8;
constexpr double kLeastFlops = 1.5e6;  // some 25 µs: what a thread is worth waking for

std::int64_t pieces_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

template <class T>
const GemmKernels<T>& kernels() {
  if constexpr (std::is_same_v<T, double>) {
    return *tile_kernels().gemm_f64;
  } else {
    return *tile_kernels().gemm_f32;
  }
}

template <class T>
struct Call {
  std::int64_t m, n, k;
  T alpha;
  Matrix<T> a, b;
  bool add;  // to C
  T* c;
  std::int64_t c_stride;
  bool shared;  // among threads

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  GemmSource a_source(std::int64_t i, std::int64_t p) const {
    const Matrix<T> x = a.from(i, p);
    return {x.data, x.dtype, x.row_stride, x.col_stride};
  }
  GemmSource b_source(std::int64_t p, std::int64_t j) const {
    const Matrix<T> x = b.from(p, j);
    return {x.data, x.dtype, x.col_stride, x.row_stride};
  }
  template <class Body>
  void for_each(std::int64_t tasks, Body&& body) const {
    if (shared) return parallel_for(tasks, body);
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
  }
};

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

// One factor: how it is packed, and whether tiles may read it where it lies.
template <class T>
struct Factor {
  std::int64_t width;  // of a panel
  std::int64_t (*packed)(std::int64_t);
  void (*pack)(const GemmSource&, std::int64_t, std::int64_t, T*);
  bool in_place;

  // Measured on Neoverse V1: panels in place save their packing, and pay with a page for each step of k. That is worth
  // it where they are read once or twice, or lie within a few pages anyway; at 128³ it loses 6 %, at 1024³ 20 %.
  Factor(std::int64_t panel, std::int64_t (*size)(std::int64_t),
         void (*packer)(const GemmSource&, std::int64_t, std::int64_t, T*), const GemmSource& source, std::int64_t wide,
         std::int64_t depth, std::int64_t passes)
      : width(panel),
        packed(size),
        pack(packer),
        in_place(source.wide_stride == 1 && source.dtype == dtype_of_type<T>::value &&
                 (passes <= 2 || wide * depth <= 4096)) {}

  std::int64_t space(std::int64_t wide, std::int64_t depth) const {
    return depth * (in_place ? packed(wide % width) : packed(wide));
  }

  GemmPanels<T> prepare(const Call<T>& call, const GemmSource& source, std::int64_t wide, std::int64_t depth,
                        T* to) const {
    const std::int64_t whole = wide / width * width;
    const std::int64_t element = static_cast<std::int64_t>(size_of(source.dtype));
    const auto from = [&](std::int64_t w) {
      return GemmSource{static_cast<const std::byte*>(source.data) + w * source.wide_stride * element, source.dtype,
                        source.wide_stride, source.depth_stride};
    };
    if (in_place) {
      if (wide > whole) pack(from(whole), wide - whole, depth, to);
      return {static_cast<const T*>(source.data), source.depth_stride, width, to};
    }
    constexpr std::int64_t kElements = 65536;  // a task
    const std::int64_t step = call.shared ? width * std::max<std::int64_t>(1, kElements / (width * depth)) : wide;
    call.for_each(pieces_of(wide, step), [&](std::int64_t i) {
      const std::int64_t first = i * step;
      pack(from(first), std::min(step, wide - first), depth, to + first * depth);
    });
    return {to, width, width * depth, to + whole * depth};
  }
};

template <class T>
void multiply_blocks(const Call<T>& call, const GemmPanels<T>& a, const GemmPanels<T>& b, std::int64_t rows,
                     std::int64_t cols, std::int64_t depth, bool add, T* c) {
  const GemmKernels<T>& kernel = kernels<T>();
  const std::int64_t col_step = kTaskPanels * kernel.cols, across = pieces_of(cols, col_step);
  std::int64_t row_step = kTaskRows;
  const auto flops_of_task = [&] {
    return 2.0 * static_cast<double>(std::min(row_step, rows) * std::min(col_step, cols)) * static_cast<double>(depth);
  };
  while (call.shared && row_step > 32 && pieces_of(rows, row_step) * across < 16 && flops_of_task() > 2 * kLeastFlops)
    row_step /= 2;
  call.for_each(pieces_of(rows, row_step) * across, [&](std::int64_t task) {
    const std::int64_t i = task / across * row_step, j = task % across * col_step;
    const GemmPanels<T> part_a{a.data + i / kernel.rows * a.distance, a.step, a.distance, a.last};
    const GemmPanels<T> part_b{b.data + j / kernel.cols * b.distance, b.step, b.distance, b.last};
    kernel.multiply(std::min(row_step, rows - i), std::min(col_step, cols - j), depth, call.alpha, part_a, part_b, add,
                    c + i * call.c_stride + j, call.c_stride);
  });
}

template <class T>
void multiply_matrices(const Call<T>& call) {
  const GemmKernels<T>& kernel = kernels<T>();
  const std::int64_t most_depth = gemm_depth(call.k);
  const std::int64_t most_rows = std::min(call.m, kMostRows / kernel.rows * kernel.rows);
  const std::int64_t most_cols = std::min(call.n, kMostCols / kernel.cols * kernel.cols);
  const Factor<T> fa(kernel.rows, kernel.packed_rows, kernel.pack_rows, call.a_source(0, 0), most_rows, most_depth,
                     pieces_of(call.n, kernel.cols));
  const Factor<T> fb(kernel.cols, kernel.packed_cols, kernel.pack_cols, call.b_source(0, 0), most_cols, most_depth,
                     pieces_of(call.m, kernel.rows));
  // Blocks at the end of A and B may be of other widths than those before: room for either.
  const std::int64_t space_a = std::max(fa.space(most_rows, most_depth), fa.space(call.m % most_rows, most_depth));
  const std::int64_t space_b = std::max(fb.space(most_cols, most_depth), fb.space(call.n % most_cols, most_depth));

  constexpr std::int64_t kLocal = 16384 / sizeof(T);  // small products need no memory from the pool
  alignas(64) T local[kLocal];
  BufferPtr memory;
  T* space = local;
  if (space_a + space_b > kLocal) {
    memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b) * sizeof(T), "matmul");
    space = reinterpret_cast<T*>(memory.data());
  }
  for (std::int64_t j = 0; j < call.n; j += most_cols) {
    const std::int64_t cols = std::min(most_cols, call.n - j);
    for (std::int64_t p = 0; p < call.k; p += most_depth) {
      const std::int64_t depth = std::min(most_depth, call.k - p);
      const GemmPanels<T> b = fb.prepare(call, call.b_source(p, j), cols, depth, space + space_a);
      for (std::int64_t i = 0; i < call.m; i += most_rows) {
        const std::int64_t rows = std::min(most_rows, call.m - i);
        const GemmPanels<T> a = fa.prepare(call, call.a_source(i, p), rows, depth, space);
        multiply_blocks(call, a, b, rows, cols, depth, call.add || p > 0, call.c + i * call.c_stride + j);
      }
    }
  }
}

// Few outputs, long sums (a weight gradient over a whole data set): the blocks of k are what there is to share. Each
// makes an [m, n] of its own; they are added in order, as everywhere.
template <class T>
void multiply_deep(const Call<T>& call) {
  const std::int64_t depth = gemm_depth(call.k), blocks = pieces_of(call.k, depth), outputs = call.m * call.n;
  const std::int64_t round = std::clamp<std::int64_t>((std::int64_t{1} << 20) / outputs, 16, blocks);
  const auto per_task =
      static_cast<std::int64_t>(std::max(1.0, kLeastFlops / (call.flops() / static_cast<double>(blocks))));
  const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(round * outputs) * sizeof(T), "matmul");
  T* parts = reinterpret_cast<T*>(memory.data());
  for (std::int64_t first = 0; first < blocks; first += round) {
    const std::int64_t count = std::min(round, blocks - first);
    parallel_for(pieces_of(count, per_task), [&](std::int64_t task) {
      for (std::int64_t i = task * per_task; i < std::min(count, (task + 1) * per_task); ++i) {
        const std::int64_t p = (first + i) * depth;
        multiply_matrices(Call<T>{call.m, call.n, std::min(depth, call.k - p), call.alpha, call.a.from(0, p),
                                  call.b.from(p, 0), false, parts + i * outputs, call.n, false});
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

// ---- products with a vector
// ---------------------------------------------------------------------------------------------

// y = alpha·x·M or y += alpha·x·M, M [k, outputs], read once where it lies.
template <class T>
class VectorProduct {
 public:
  VectorProduct(const Call<T>& call, std::int64_t outputs, const Matrix<T>& x, const Matrix<T>& matrix,
                std::int64_t y_stride)
      : call_(call), x_(x), matrix_(matrix), outputs_(outputs), y_stride_(y_stride) {}

  void run() const {
    // Tasks read M in long runs: whole rows of it where they are dense (at 4096² that is 20 GB/s, and 12 in pieces of
    // 512), which leaves k to share; else the outputs are shared, if there are enough to keep the processor busy.
    const bool few = outputs_ < 4 && blocks_ > 1, dense_rows = matrix_.col_stride == 1;
    const bool large = call_.shared && outputs_ * call_.k >= 2 * kLeastElements;
    if (few || (large && blocks_ > 1 && (dense_rows || outputs_ < 256))) return share_depth(few);
    const std::int64_t least = pieces_of(kLeastElements / call_.k, 64) * 64;
    const std::int64_t step = dense_rows ? kMostOutputs : std::clamp<std::int64_t>(least, 64, kMostOutputs);
    call_.for_each(pieces_of(outputs_, step), [&](std::int64_t task) {
      const std::int64_t j = task * step, n = std::min(step, outputs_ - j);
      T sum[kMostOutputs];
      for (std::int64_t p = 0; p < blocks_; ++p) {
        block(p, j, n, sum);
        write(p, j, n, sum);
      }
    });
  }

 private:
  static constexpr std::int64_t kMostOutputs = 4096, kRuns = 8;
  static constexpr std::int64_t kLeastElements = 1 << 17;  // of M, a task

  void share_depth(bool few) const {
    const std::int64_t per_task = std::max<std::int64_t>(1, kLeastElements / (outputs_ * depth_));
    const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(blocks_ * outputs_) * sizeof(T), "matmul");
    T* sums = reinterpret_cast<T*>(memory.data());
    call_.for_each(pieces_of(blocks_, per_task), [&](std::int64_t task) {
      std::int64_t p = task * per_task;
      const std::int64_t end = std::min(blocks_, p + per_task), whole = std::min(end, call_.k / depth_);
      while (few && p < whole) {
        const std::int64_t count = std::min(kRuns, whole - p);
        runs(p, count, sums + p * outputs_);
        p += count;
      }
      for (; p < end; ++p) block(p, 0, outputs_, sums + p * outputs_);
    });
    for (std::int64_t p = 0; p < blocks_; ++p) write(p, 0, outputs_, sums + p * outputs_);
  }

  static GemmSource source(const Matrix<T>& x) { return {x.data, x.dtype, x.col_stride, x.row_stride}; }

  // x[first, first + count)
  void read(std::int64_t first, std::int64_t count, T* numbers) const {
    kernel_.read_vector(source(x_.from(0, first).transposed()), count, numbers);
  }

  // Block p of k, for outputs [j, j + n).
  void block(std::int64_t p, std::int64_t j, std::int64_t n, T* sum) const {
    const std::int64_t first = p * depth_, depth = std::min(depth_, call_.k - first);
    T numbers[kGemmDepth];
    read(first, depth, numbers);
    kernel_.multiply_vector(n, depth, numbers, source(matrix_.from(first, j)), sum);
  }

  // Blocks [p, p + count), at most kRuns, side by side.
  void runs(std::int64_t p, std::int64_t count, T* sums) const {
    const std::int64_t first = p * depth_;
    T numbers[kRuns * kGemmDepth];
    read(first, count * depth_, numbers);
    for (std::int64_t j = 0; j < outputs_; ++j)
      kernel_.multiply_runs(count, depth_, numbers, source(matrix_.from(first, j)), sums + j, outputs_);
  }

  void write(std::int64_t p, std::int64_t j, std::int64_t n, const T* sum) const {
    T* y = call_.c + j * y_stride_;
    for (std::int64_t i = 0; i < n; ++i) {
      const T product = call_.alpha * sum[i];
      y[i * y_stride_] = call_.add || p > 0 ? y[i * y_stride_] + product : product;
    }
  }

  const GemmKernels<T>& kernel_ = kernels<T>();
  const Call<T>& call_;
  const Matrix<T> x_, matrix_;
  const std::int64_t outputs_, y_stride_;
  const std::int64_t depth_ = gemm_depth(call_.k), blocks_ = pieces_of(call_.k, depth_);
};

// A product that is over before anything is packed.
template <class T>
void multiply_tiny(const Call<T>& call) {
  for (std::int64_t i = 0; i < call.m; ++i) {
    for (std::int64_t j = 0; j < call.n; ++j) {
      const Matrix<T> row = call.a.from(i, 0), col = call.b.from(0, j);
      const T product = call.alpha * kernels<T>().dot(call.k, static_cast<const T*>(row.data), row.col_stride,
                                                      static_cast<const T*>(col.data), col.row_stride);
      T& out = call.c[i * call.c_stride + j];
      out = call.add ? out + product : product;
    }
  }
}

template <class T>
void run(Call<T> call, T beta) {
  if (call.m == 0 || call.n == 0) return;
  if (beta != T(0) && beta != T(1)) scale(call.m, call.n, beta, call.c, call.c_stride);
  if (call.k == 0) {
    if (beta == T(0)) scale(call.m, call.n, beta, call.c, call.c_stride);
    return;
  }
  constexpr DType kOwn = dtype_of_type<T>::value;
  if (call.m * call.n * call.k <= 128 && call.a.dtype == kOwn && call.b.dtype == kOwn) return multiply_tiny(call);
  // C's row = A's row · B, C's column = B's column · Aᵀ.
  if (call.m == 1) return VectorProduct<T>(call, call.n, call.a, call.b, 1).run();
  if (call.n == 1) return VectorProduct<T>(call, call.m, call.b.transposed(), call.a.transposed(), call.c_stride).run();
  call.shared = call.shared && call.flops() >= 2 * kLeastFlops;
  constexpr std::int64_t kFew = 128;
  if (call.shared && call.m <= kFew && call.n <= kFew && call.k >= 4 * kGemmDepth) return multiply_deep(call);
  multiply_matrices(call);
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

#define EBB_GEMM(T)                                                                                                    \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*,        \
                        std::int64_t);                                                                                 \
  template void gemm_serial<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*, \
                               std::int64_t);
EBB_GEMM(float)
EBB_GEMM(double)
#undef EBB_GEMM

}  // namespace ebb::cpu
