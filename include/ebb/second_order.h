// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/autograd.h"

// Tools of second-order methods beyond hvp, hessian and jacobian (ebb/autograd.h).
namespace ebb {

// The diagonal of the Hessian of f (one element in its result), in the shape of x. Exact: one product H·e per element
// of x. With samples > 0 it is Hutchinson's estimate instead, the mean of v ⊙ H·v over random signs v: exact where the
// Hessian is diagonal, otherwise with noise from the other elements.
Tensor diagonal_hessian(const Function& f, const Tensor& x, int samples = 0);

// The diagonal of the empirical Fisher information: the mean over i of (∂lᵢ/∂x)², where f returns the vector of all lᵢ,
// the negative log-likelihood of each sample.
Tensor fisher_diagonal(const Function& f, const Tensor& x);

// Jᵀ·H·J·v, with J the Jacobian of `model` at x and H the Hessian of `loss` (one element) at model(x): positive
// semi-definite for a convex loss, where the Hessian of the whole need not be.
Tensor gauss_newton_product(const Function& model, const Function& loss, const Tensor& x, const Tensor& v);

}  // namespace ebb
