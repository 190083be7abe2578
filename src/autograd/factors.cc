// SPDX-License-Identifier: MIT
#include "autograd/factors.h"

#include <vector>

#include "calls/factors.h"
#include "ebb/autograd.h"
#include "ebb/backward/linalg.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"

namespace ebb {
namespace {

Tensor square_of(const Tensor& packed) { return narrow(packed, -2, 0, packed.size(-1)); }
// In f64: products of many pivots, and their exchanges, as the factorisation of a single determinant has them.
Tensor pivots_of(const Tensor& packed) { return cast(diagonal(square_of(packed), 0, -2, -1), DType::f64); }
Tensor rows_of(const Tensor& packed) { return select(packed, -2, packed.size(-1)); }
Tensor parity_of(const Tensor& packed) { return where(select(rows_of(packed), -1, 0) < 0, -1.0, 1.0); }

}  // namespace

Tensor packed_factors(const Tensor& a) {
  const int rank = a.rank();
  return make_node(Op::det, a.dtype(), a.shape().with(rank - 2, a.size(-1) + 1), {stop_gradient(a)},
                   with_options(FactorsCall{}));
}

Tensor determinant_of(const Tensor& packed) {
  return cast(prod(pivots_of(packed), -1) * parity_of(packed), packed.dtype());
}

std::pair<Tensor, Tensor> signed_logarithm_of(const Tensor& packed) {
  const Tensor pivots = pivots_of(packed);
  return {cast(prod(sign(pivots), -1) * parity_of(packed), packed.dtype()),
          cast(sum(log(abs(pivots)), -1), packed.dtype())};
}

// P·A = L·U: A⁻¹ = U⁻¹·L⁻¹·P
Tensor inverse_by_factors(const Tensor& a) {
  return custom_function(
      [](const std::vector<Tensor>& x) {
        const Tensor packed = packed_factors(x[0]), factors = square_of(packed);
        const Tensor pivots = diagonal(factors, 0, -2, -1), rows = abs(rows_of(packed)) - 1;
        const Tensor found = check(pivots, pivots != 0, "inv: the matrix is singular: its pivot");
        const Tensor exchanged = cast(unsqueeze(rows, -1) == arange(x[0].size(-1)), x[0].dtype());
        const Tensor right = where(unsqueeze(found, -1) == 0, 0, exchanged);
        const Tensor lower = triangular_solve(factors, right, {.unit_diagonal = true});
        return triangular_solve(factors, lower, {.upper = true});
      },
      [](const Tensor& grad, const Tensor& y, const std::vector<Tensor>&) {
        return std::vector<Tensor>{inv_backward(grad, y)};
      },
      {a});
}

}  // namespace ebb
