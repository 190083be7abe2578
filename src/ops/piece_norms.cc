// SPDX-License-Identifier: MIT
#include "ops/piece_norms.h"

#include "ebb/ops/reduce.h"
#include "ebb/ops/shape.h"

namespace ebb {

Tensor piece_norms(const Tensor& x, double p) {
  const std::int64_t n = x.numel(), whole = n / kNormPiece * kNormPiece;
  if (n <= kNormPiece) return reshape(norm(x, p), {1});
  const Tensor flat = reshape(x, {n});
  Tensor norms = norm(reshape(narrow(flat, 0, 0, whole), {whole / kNormPiece, kNormPiece}), p, {1});
  if (whole < n) norms = cat({norms, reshape(norm(narrow(flat, 0, whole, n - whole), p), {1})});
  return norms;
}

}  // namespace ebb
