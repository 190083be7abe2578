// SPDX-License-Identifier: MIT
#include "cpu/gemm/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/buffer.h"
#include "cpu/gemm/bf16.h"
#include "cpu/gemm/call.h"
#include "cpu/gemm/matrices.h"
#include "cpu/gemm/turns.h"
#include "cpu/gemm/vector.h"
#include "cpu/tile/elements.h"

// Blocks of both factors are packed into panels in the order the tiles read them, then threads share the blocks of C
// (matrices.h); vectors, and products of a few numbers, have paths of their own. All are bit-identical.
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

// Small products take less time than their plans, and those of a batch share one plan: a thread keeps its last few,
// since a kernel may take several products in turns (attention with its gradient, seven).
template <class Make>
auto plan_once(const GemmRequest& request, const GemmTileShape& tiles, Make&& make) {
  struct Last {
    GemmRequest request;
    GemmTileShape tiles{};
    decltype(make()) plan;
  };
  thread_local std::array<Last, CpuModel::kept_plans> kept;
  thread_local std::size_t next = 0;
  for (const Last& last : kept) {
    if (last.request == request && last.tiles == tiles) return last.plan;
  }
  Last& last = kept[next++ % kept.size()];
  last = {request, tiles, make()};
  return last.plan;
}
GemmPlan plan_once(const GemmRequest& request, const GemmTileShape& tiles) {
  return plan_once(request, tiles, [&] { return plan_product(request, tiles, cpu_model()); });
}

// ---- carrying out a plan --------------------------------------------------------------------------------------------

template <class T, class P>
void multiply_matrices(const Call<T>& call, const GemmTiles<T, P>& tiles, const GemmPlan& plan) {
  if (plan.order == GemmPlan::Order::turns) return ProductInTurns<T, P>(call, tiles, plan).run();
  MatrixProduct<T, P>(call, tiles, plan).run();
}

// Few outputs, long sums (a weight gradient over a whole data set): the blocks of k are shared among threads. Each
// computes an [m, n] of its own; they are added in order, as everywhere.
template <class T, class P>
void multiply_deep(const Call<T>& call, const GemmTiles<T, P>& tiles, const GemmPlan& plan) {
  const std::int64_t outputs = call.m * call.n;
  const BufferPtr memory =
      BufferPtr::allocate(static_cast<std::size_t>(plan.at_a_time * outputs) * sizeof(T), "matmul");
  T* parts = reinterpret_cast<T*>(memory.data());
  for (std::int64_t first = 0; first < plan.blocks; first += plan.at_a_time) {
    const std::int64_t count = std::min(plan.at_a_time, plan.blocks - first);
    parallel_for(ceil_div(count, plan.per_task), [&](std::int64_t task) {
      for (std::int64_t i = task * plan.per_task; i < std::min(count, (task + 1) * plan.per_task); ++i) {
        const std::int64_t p = (first + i) * plan.depth;
        const Call<T> block{call.m,
                            call.n,
                            std::min(plan.depth, call.k - p),
                            call.alpha,
                            call.a.from(0, p),
                            call.b.from(p, 0),
                            false,
                            parts + i * outputs,
                            call.n,
                            false};
        GemmRequest request = block.template request<P>();
        request.dots = request.vectors = false;
        multiply_matrices(block, tiles, plan_once(request, tiles.shape));
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

// A product too small for packing.
template <class T>
void multiply_dots(const Call<T>& call) {
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

// C's row = A's row · B, C's column = B's column · Aᵀ.
template <class T>
void multiply_vector(const Call<T>& call, const GemmVectors<T>& vectors, const GemmPlan& plan) {
  if (call.m == 1) return VectorProduct<T>(vectors, call, call.n, call.a, call.b, 1, plan).run();
  VectorProduct<T>(vectors, call, call.m, call.b.transposed(), call.a.transposed(), call.c_stride, plan).run();
}

// The one place that decides: tiles of bf16 if the machine has some and both factors are, or may be, bf16. Also for
// vectors and for products of a few numbers, because a row must not depend on how many there are.
const GemmBf16Tiles* bf16_tiles_for(const Matrix<float>& a, const Matrix<float>& b) {
  return a.as_bf16() && b.as_bf16() ? gemm_bf16_tiles() : nullptr;
}
GemmRequest bf16_request(const Call<float>& call) {
  GemmRequest request = call.request<BFloat16>();
  request.dots = false;
  request.vectors = gemm_bf16_vectors() != nullptr;
  return request;
}

template <class T, class P>
void multiply(const Call<T>& call, const GemmTiles<T, P>& tiles, const GemmVectors<T>* vectors, const GemmPlan& plan) {
  switch (plan.order) {
    case GemmPlan::Order::dots:
      return multiply_dots(call);
    case GemmPlan::Order::outputs:
    case GemmPlan::Order::depth:
      return multiply_vector(call, *vectors, plan);
    case GemmPlan::Order::deep:
      return multiply_deep(call, tiles, plan);
    default:
      return multiply_matrices(call, tiles, plan);
  }
}

template <class T>
GemmPlan plan_call(const Call<T>& call) {
  if constexpr (std::is_same_v<T, float>) {
    if (const GemmBf16Tiles* tiles = bf16_tiles_for(call.a, call.b)) return plan_once(bf16_request(call), tiles->shape);
  }
  return plan_once(call.template request<T>(), gemm_kernels<T>().tiles.shape);
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
    if (const GemmBf16Tiles* tiles = bf16_tiles_for(call.a, call.b))
      return multiply(call, *tiles, gemm_bf16_vectors(), plan_call(call));
  }
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  multiply(call, kernels.tiles, &kernels.vectors, plan_call(call));
}

// A·B rounded to halves. Tiles of bf16 round their sums themselves, in the last block of k; otherwise, and for the sums
// of the blocks before it, a part of the result is held in f32.
void run_to_halves(Call<float> call, DType dtype, void* out, std::int64_t stride) {
  if (call.m == 0 || call.n == 0) return;
  const auto place = [&](std::int64_t i, std::int64_t j) {
    return static_cast<std::byte*>(out) + (i * stride + j) * static_cast<std::int64_t>(size_of(dtype));
  };
  if (call.k == 0) {
    for (std::int64_t i = 0; i < call.m; ++i) std::memset(place(i, 0), 0, static_cast<std::size_t>(call.n) * 2);
    return;
  }
  const CpuModel& model = cpu_model();
  const GemmBf16Tiles* tiles = bf16_tiles_for(call.a, call.b);
  const bool tiles_round = tiles != nullptr && dtype == DType::bf16;
  const GemmRequest request = tiles ? bf16_request(call) : call.request<float>();
  const GemmTileShape& shape = tiles ? tiles->shape : gemm_kernels<float>().tiles.shape;
  GemmRequest asked = request;
  asked.rounded = tiles_round;
  const HalvesPlan plan = plan_once(asked, shape, [&] { return plan_halves(request, tiles_round, shape, model); });
  const auto multiply_by_tiles = [&](const Call<float>& part) {
    multiply(part, *tiles, gemm_bf16_vectors(), plan_call(part));
  };
  if (plan.part_rows == 0) {
    call.halves = static_cast<BFloat16*>(out);
    call.halves_stride = stride;
    return multiply_by_tiles(call);
  }
  const std::int64_t most_rows = plan.part_rows, most_cols = plan.part_cols;
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
      if (plan.by_tiles) {
        part.halves = reinterpret_cast<BFloat16*>(place(i, j));
        part.halves_stride = stride;
        multiply_by_tiles(part);
        continue;
      }
      run(part, 0.0f);
      const std::int64_t step = std::max<std::int64_t>(1, model.rounding_elements / part.n);
      for_each(call.shared, ceil_div(part.m, step), [&](std::int64_t task) {
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

template <class T>
GemmPlan plan_of(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b, bool shared) {
  return plan_call(Call<T>{m, n, k, T(1), a, b, false, nullptr, n, shared});
}

#define EBB_GEMM(T)                                                                                                    \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*,        \
                        std::int64_t);                                                                                 \
  template void gemm_serial<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*, \
                               std::int64_t);                                                                          \
  template GemmPlan plan_of<T>(std::int64_t, std::int64_t, std::int64_t, const Matrix<T>&, const Matrix<T>&, bool);
EBB_GEMM(float)
EBB_GEMM(double)
#undef EBB_GEMM

}  // namespace ebb::cpu
