// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// Every thread that calls OpenBLAS or LAPACK calls this first: it keeps OpenBLAS on the calling thread, where the order
// of its sums depends only on the sizes. (Once per thread, because OpenMP builds of OpenBLAS ask the calling thread.)
void keep_blas_serial();

// A size as BLAS takes it; throws an Error when it does not fit in 32 bits.
int blas_size(std::int64_t n);

}  // namespace ebb
