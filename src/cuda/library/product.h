// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/library/cublaslt.h"
#include "cuda/runtime/gpu.h"
#include "ebb/dtype.h"

namespace ebb::cuda {

// A row-major matrix of rows x columns elements in memory, as cuBLASLt requires: one of the strides is 1.
struct Matrix {
  std::byte* data = nullptr;
  std::int64_t row_step = 0, column_step = 0, batch_step = 0;
  std::int64_t room = 0;  // unused elements after each row, or column where columns are contiguous

  bool by_rows() const { return column_step == 1; }
  std::int64_t step() const { return by_rows() ? row_step : column_step; }
};

// Factors of eight bits, both stored contiguously along the sum: a by rows, b by columns. Rows of the product are
// multiplied by a_scales, columns by b_scales.
struct Fp8Factors {
  bool a_e5m2 = false, b_e5m2 = false;
  const void *a_scales = nullptr, *b_scales = nullptr;  // f32
  bool quick = true;  // sums stay in the accumulators of the tensor cores, which have fewer digits than f32
};

// Row-major C[m, n] = A[m, k]·B[k, n].
struct Product {
  std::int64_t m, n, k, batches;
  Matrix a, b;
  DType in, out;
  std::byte* c;
  std::int64_t c_step, c_batch;        // rows of c are c_step apart, n where they are dense
  bool add;                            // accumulates into c
  const void* bias = nullptr;          // n elements like those of c, added to each row before it is rounded
  std::optional<Fp8Factors> fp8 = {};  // `in` is then u8
  std::int64_t c_room = 0;             // as that of a and b
  bool tf32 = false;                   // factors of f32 may be rounded to it
};

// Where k is long and the result small there are too few tiles for all multiprocessors, as in the gradients of weights
// over many tokens: parts of k are products side by side, added in order. count = 1: it is not divided.
struct SumParts {
  std::int64_t count = 1, each = 0;  // the last may be shorter
};
// For halves decided by k and n alone, so that rows do not depend on their number; for others only where that is wanted
// (`invariant`).
SumParts parts_of_sum(const GpuModel& model, const Product& p, bool invariant);

// A product as cuBLASLt describes it, column-major Cᵀ = Bᵀ·Aᵀ: the first operand is B.
class LtProduct {
 public:
  explicit LtProduct(const Product& p);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;

  // False if cuBLASLt does not support this product after all.
  bool run(Gpu& gpu, const Product& p, const Heuristic& algorithm, void* workspace) const;
  // Proposals of cuBLASLt, best first, without those that divide k among blocks. Possibly empty.
  std::vector<Heuristic> proposals(const Product& p, std::size_t most_workspace) const;
  // Does an algorithm proposed for another product work for this one?
  bool takes(const Heuristic& algorithm) const;

 private:
  void *product_ = nullptr, *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
};

// The algorithm for a product: always the same for the same product in a process. Empty if cuBLASLt has none.
std::optional<Heuristic> algorithm_for(Gpu& gpu, const Product& p, const LtProduct& product);

// From so many floating-point operations on, uses the fastest of the algorithms proposed for halves, by timing, instead
// of the first. Returns the previous setting. EBB_CUDA_TUNE=0: never.
double tune_products_from(double operations);

// Number of products so far that were too thin for cuBLASLt, or that it did not support.
long products_by_own_kernel();

}  // namespace ebb::cuda
