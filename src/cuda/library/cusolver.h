// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/runtime/driver.h"

namespace ebb::cuda {

// The part of cusolverDn.h that is called here, the same for f32 and f64: matrices are stored by columns, sizes of
// workspaces are elements, and `info` is on the device.
namespace cusolver {

using Status = int;
inline constexpr int kLower = 0, kUpper = 1;  // which triangle
inline constexpr int kVectors = 1;            // are wanted, too

#define EBB_CUSOLVER_OF_TYPE(X)                                                                                      \
  X(potrf_size, potrf_bufferSize, (void*, int, int, void*, int, int*))                                               \
  X(potrf, potrf, (void*, int, int, void*, int, void*, int, int*))                                                   \
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

struct Cusolver {
#define EBB_MEMBER(name, symbol, parameters) cusolver::Status(*name) parameters = nullptr;
  EBB_CUSOLVER(EBB_MEMBER)
#undef EBB_MEMBER
  cusolver::OfType f32, f64;
};

const Cusolver* cusolver_table();  // null where there is none, or EBB_CUSOLVER=0 says so

// For tests; null: there is none.
void install_cusolver(const Cusolver* table);

}  // namespace ebb::cuda
