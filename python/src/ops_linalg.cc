// SPDX-License-Identifier: MIT
#include "bind.h"

namespace ebb::python {

void bind_linalg(const Api& api) {
  both(api, "matmul", matmul, "other"_a);
  both(api, "dot", dot, "other"_a);
  both(api, "outer", outer, "other"_a);
  function(
      api, "einsum",
      [](const std::string& equation, nb::args operands) {
        std::vector<Tensor> tensors;
        const bool listed =
            operands.size() == 1 && nb::isinstance<nb::sequence>(operands[0]) && !tensor_in(operands[0]);
        for (nb::handle h : listed ? nb::handle(operands[0]) : nb::handle(operands))
          tensors.push_back(nb::cast<Tensor>(h));
        return einsum(equation, tensors);
      },
      "equation"_a, "operands"_a);
  function(api, "cholesky", cholesky, "a"_a);
  function(
      api, "triangular_solve",
      [](const Tensor& a, const Tensor& b, bool upper, bool transposed, bool unit_diagonal) {
        return triangular_solve(a, b, {.upper = upper, .transposed = transposed, .unit_diagonal = unit_diagonal});
      },
      "a"_a, "b"_a, nb::kw_only(), "upper"_a = false, "transposed"_a = false, "unit_diagonal"_a = false);
  function(api, "solve", solve, "a"_a, "b"_a);
  function(api, "inv", inv, "a"_a);
  function(api, "det", det, "a"_a);
  function(api, "logdet", logdet, "a"_a);
}

}  // namespace ebb::python
