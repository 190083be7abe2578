// SPDX-License-Identifier: MIT
#include "core/blas.h"

#include <cblas.h>

#include <limits>

#include "core/format_error.h"

namespace ebb {

void keep_blas_serial() {
  thread_local const bool done = (openblas_set_num_threads(1), true);
  (void)done;
}

int blas_size(std::int64_t n) {
  require(
      n >= 0 && n <= std::numeric_limits<int>::max(),
      "linear algebra: a size or stride of {} elements is more than BLAS can take; cut the matrix into smaller ones",
      n);
  return static_cast<int>(n);
}

}  // namespace ebb
