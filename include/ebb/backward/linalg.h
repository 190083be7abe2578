// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ebb/ops/linalg.h"

// Gradient rules of linear algebra. Pairs are the cotangents of a and b.
namespace ebb {

std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> dot_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> outer_backward(const Tensor& grad, const Tensor& a, const Tensor& b);
std::vector<Tensor> einsum_backward(const Tensor& grad, const std::string& equation,
                                    const std::vector<Tensor>& operands);
Tensor cholesky_backward(const Tensor& grad, const Tensor& l);  // l: the factor
std::pair<Tensor, Tensor> triangular_solve_backward(const Tensor& grad, const Tensor& a, const Tensor& x,
                                                    const TriangularOptions& options = {});  // x: the solution
std::pair<Tensor, Tensor> solve_backward(const Tensor& grad, const Tensor& a, const Tensor& x);
Tensor inv_backward(const Tensor& grad, const Tensor& y);  // y: the inverse
Tensor det_backward(const Tensor& grad, const Tensor& a);
Tensor logdet_backward(const Tensor& grad, const Tensor& a);

}  // namespace ebb
