// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/runtime/driver.h"

namespace ebb::cuda {

// The subset of cusolverDn.h used here, the same for f32 and f64: matrices are stored by columns, sizes of workspaces
// are in elements, and `info` is on the device.
namespace cusolver {

using Status = int;
inline constexpr int kLower = 0, kUpper = 1;  // which triangle
inline constexpr int kVectors = 1;            // are wanted, too

#define EBB_CUSOLVER_OF_TYPE(X)                                                                                      \
  X(potrf_size, potrf_bufferSize, (void*, int, int, void*, int, int*))                                               \
  X(potrf, potrf, (void*, int, int, void*, int, void*, int, int*))                                                   \
  X(potrf_batched, potrfBatched, (void*, int, int, void**, int, int*, int))                                          \
  X(getrf_size, getrf_bufferSize, (void*, int, int, void*, int, int*))                                               \
  X(getrf, getrf, (void*, int, int, void*, int, void*, int*, int*))                                                  \
  X(getrs, getrs, (void*, int, int, int, const void*, int, const int*, void*, int, int*))                            \
  X(geqrf_size, geqrf_bufferSize, (void*, int, int, void*, int, int*))                                               \
  X(geqrf, geqrf, (void*, int, int, void*, int, void*, void*, int, int*))                                            \
  X(orgqr_size, orgqr_bufferSize, (void*, int, int, int, const void*, int, const void*, int*))                       \
  X(orgqr, orgqr, (void*, int, int, int, void*, int, const void*, void*, int, int*))                                 \
  X(syevd_size, syevd_bufferSize, (void*, int, int, int, const void*, int, const void*, int*))                       \
  X(syevd, syevd, (void*, int, int, int, void*, int, void*, void*, int, int*))                                       \
  X(syevj_size, syevjBatched_bufferSize, (void*, int, int, int, const void*, int, const void*, int*, void*, int))    \
  X(syevj, syevjBatched, (void*, int, int, int, void*, int, void*, void*, int, int*, void*, int))                    \
  X(gesvdj_size, gesvdj_bufferSize,                                                                                  \
    (void*, int, int, int, int, const void*, int, const void*, const void*, int, const void*, int, int*, void*))     \
  X(gesvdj, gesvdj, (void*, int, int, int, int, void*, int, void*, void*, int, void*, int, void*, int, int*, void*)) \
  X(gesvdj_batched_size, gesvdjBatched_bufferSize,                                                                   \
    (void*, int, int, int, const void*, int, const void*, const void*, int, const void*, int, int*, void*, int))     \
  X(gesvdj_batched, gesvdjBatched,                                                                                   \
    (void*, int, int, int, void*, int, void*, void*, int, void*, int, void*, int, int*, void*, int))

struct OfType {
#define EBB_MEMBER(name, symbol, parameters) Status(*name) parameters = nullptr;
  EBB_CUSOLVER_OF_TYPE(EBB_MEMBER)
#undef EBB_MEMBER
};

}  // namespace cusolver

#define EBB_CUSOLVER(X)                                       \
  X(create, cusolverDnCreate, (void**))                       \
  X(set_stream, cusolverDnSetStream, (void*, Stream))         \
  X(create_svd_options, cusolverDnCreateGesvdjInfo, (void**)) \
  X(create_eigen_options, cusolverDnCreateSyevjInfo, (void**))

// Eigenvectors of many matrices; sizes of workspaces are in bytes.
#define EBB_CUSOLVER_SINCE_12_6(X)                                                                               \
  X(create_params, cusolverDnCreateParams, (void**))                                                             \
  X(syev_batched_size, cusolverDnXsyevBatched_bufferSize,                                                        \
    (void*, void*, int, int, std::int64_t, int, const void*, std::int64_t, int, const void*, int, std::size_t*,  \
     std::size_t*, std::int64_t))                                                                                \
  X(syev_batched, cusolverDnXsyevBatched,                                                                        \
    (void*, void*, int, int, std::int64_t, int, void*, std::int64_t, int, void*, int, void*, std::size_t, void*, \
     std::size_t, int*, std::int64_t))

struct Cusolver {
#define EBB_MEMBER(name, symbol, parameters) cusolver::Status(*name) parameters = nullptr;
  EBB_CUSOLVER(EBB_MEMBER)
  EBB_CUSOLVER_SINCE_12_6(EBB_MEMBER)  // null where it is older
#undef EBB_MEMBER
  cusolver::OfType f32, f64;
};

// The subset of cublas_api.h that factors many matrices at a time, given by an array of pointers on the device.
// Verdicts of getrs concern its arguments, and are on the host.
#define EBB_CUBLAS(X)                  \
  X(create, cublasCreate_v2, (void**)) \
  X(set_stream, cublasSetStream_v2, (void*, Stream))
#define EBB_CUBLAS_OF_TYPE(X)                                                      \
  X(getrf_batched, getrfBatched, (void*, int, void* const*, int, int*, int*, int)) \
  X(getrs_batched, getrsBatched,                                                   \
    (void*, int, int, int, const void* const*, int, const int*, void* const*, int, int*, int))

struct Cublas {
#define EBB_MEMBER(name, symbol, parameters) cusolver::Status(*name) parameters = nullptr;
  EBB_CUBLAS(EBB_MEMBER)
  struct OfType {
    EBB_CUBLAS_OF_TYPE(EBB_MEMBER)
  } f32, f64;
#undef EBB_MEMBER
};

// Null where there is none, or with EBB_CUSOLVER=0.
const Cusolver* cusolver_table();
const Cublas* cublas_table();

// For tests; null: there is none.
void install_cusolver(const Cusolver* table, const Cublas* batches);

}  // namespace ebb::cuda
