// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <mutex>

#include "backend/call.h"
#include "core/buffer.h"
#include "cuda/library/cusolver.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// cuSOLVER's handle of a GPU, used by one thread at a time, on the calling thread's stream.
class Solver {
 public:
  // Converts to false if there is none.
  explicit Solver(Gpu& gpu);
  explicit operator bool() const { return handle_ != nullptr; }

  void* handle() const { return handle_; }
  void* svd_options() const { return svd_options_; }
  void* eigen_options() const { return eigen_options_; }
  const cusolver::OfType& of(DType dtype) const { return dtype == DType::f64 ? table_->f64 : table_->f32; }
  const Cusolver& table() const { return *table_; }
  void* params() const { return params_; }  // of the 64-bit API; null: the library is too old for it

  // For many matrices at a time; null if there is no cuBLAS for it.
  void* batch_handle() const { return batch_handle_; }
  const Cublas::OfType& batches_of(DType dtype) const { return dtype == DType::f64 ? batches_->f64 : batches_->f32; }

 private:
  const Cusolver* table_ = nullptr;
  const Cublas* batches_ = nullptr;
  void *handle_ = nullptr, *svd_options_ = nullptr, *eigen_options_ = nullptr, *params_ = nullptr,
       *batch_handle_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};
void check_solver(cusolver::Status status, const char* call);

// Matrices [..., m, n] of f32 or f64 stored by columns, one after the other, and the verdicts on them.
struct StoredByColumns {
  View view;  // of shape [..., m, n]
  std::int64_t count = 0;
  int rows = 0, columns = 0;
  BufferPtr keep;

  std::byte* matrix(std::int64_t i) const;
  std::size_t bytes() const {  // of a matrix
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * size_of(view.dtype);
  }
};
// Addresses of `count` matrices `bytes` apart, as an array on the device.
void** pointers_to(Gpu& gpu, void* first, std::int64_t count, std::size_t bytes, BufferPtr& keep);
StoredByColumns stored_by_columns(Gpu& gpu, const View& v, const char* what);

}  // namespace ebb::cuda
