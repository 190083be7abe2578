// SPDX-License-Identifier: MIT
#include "cuda/library/solver.h"

#include <map>
#include <memory>
#include <utility>

#include "core/format_error.h"
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// Never destroyed: by the end of the process the driver may be gone.
struct SolverOfGpu {
  std::mutex mutex;
  void *handle = nullptr, *svd_options = nullptr, *eigen_options = nullptr;  // null: cuSOLVER does not start here
  void *params = nullptr, *batches = nullptr;
};
SolverOfGpu& solver_of_gpu(const Gpu& gpu, const Cusolver& table, const Cublas* batches) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<std::pair<int, const Cusolver*>, std::unique_ptr<SolverOfGpu>>;
  std::lock_guard guard(*mutex);
  std::unique_ptr<SolverOfGpu>& made = (*all)[{gpu.index(), &table}];
  if (!made) {
    made = std::make_unique<SolverOfGpu>();
    if (table.create(&made->handle) != 0 || table.create_svd_options(&made->svd_options) != 0 ||
        table.create_eigen_options(&made->eigen_options) != 0)
      made->handle = nullptr;
    if (!table.syev_batched || !table.create_params || table.create_params(&made->params) != 0) made->params = nullptr;
    if (!batches || batches->create(&made->batches) != 0) made->batches = nullptr;
  }
  return *made;
}

}  // namespace

Solver::Solver(Gpu& gpu) : table_(cusolver_table()), batches_(cublas_table()) {
  if (!table_) return;
  SolverOfGpu& own = solver_of_gpu(gpu, *table_, batches_);
  if (!own.handle) return;
  lock_ = std::unique_lock(own.mutex);
  handle_ = own.handle;
  svd_options_ = own.svd_options;
  eigen_options_ = own.eigen_options;
  params_ = own.params;
  check_solver(table_->set_stream(handle_, gpu.stream()), "cusolverDnSetStream");
  if (!own.batches) return;
  batch_handle_ = own.batches;
  check_solver(batches_->set_stream(batch_handle_, gpu.stream()), "cublasSetStream");
}

void check_solver(cusolver::Status status, const char* call) {
  require(status == 0, "cuda: {} failed with status {}", call, status);
}

std::byte* StoredByColumns::matrix(std::int64_t i) const { return element_at(view, i * rows * columns); }

void** pointers_to(Gpu& gpu, void* first, std::int64_t count, std::size_t bytes, BufferPtr& keep) {
  const View all = workspace(gpu, DType::i64, Shape{count}, keep, "a factorisation");
  launch_elements(gpu, {texts::pointers}, "fill_pointers", count,
                  PointersArgs{.to = static_cast<char**>(all.data),
                               .first = static_cast<char*>(first),
                               .bytes = static_cast<i64>(bytes),
                               .count = count});
  return static_cast<void**>(all.data);
}

StoredByColumns stored_by_columns(Gpu& gpu, const View& v, const char* what) {
  const int rank = v.shape.rank();
  StoredByColumns s;
  s.rows = static_cast<int>(v.shape[rank - 2]);
  s.columns = static_cast<int>(v.shape[rank - 1]);
  s.count = v.shape.numel() / std::max<std::int64_t>(1, v.shape[rank - 2] * v.shape[rank - 1]);
  View from = v;
  BufferPtr keep[2];
  if (is_half(v.dtype)) {
    const View halves = packed(gpu, v, keep[0], what);
    from = workspace(gpu, DType::f32, v.shape, keep[1], what);
    convert_elements(gpu, from, halves);
  }
  s.view = workspace(gpu, from.dtype, v.shape, s.keep, what);
  s.view.strides[rank - 2] = 1;
  s.view.strides[rank - 1] = s.rows;
  copy_elements(gpu, s.view, from);
  return s;
}

}  // namespace ebb::cuda
