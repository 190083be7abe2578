// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "ebb/nn/parameters.h"

// Minimisers of a smooth, noise-free function. They compute in the dtype of x; f64 is recommended.
namespace ebb {
inline namespace optim {

struct Minimum {
  Tensor x;
  double value = 0;
  double gradient_norm = 0;  // the largest |gradient|
  int iterations = 0;
  int evaluations = 0;  // of the function with its gradient
  int products = 0;     // Hessian times vector (Newton-CG)
  bool converged = false;
};

// Limited-memory BFGS: the direction by the two-loop recursion over the last `history` steps, the length by a line
// search for the strong Wolfe conditions (Nocedal and Wright, algorithms 7.4, 3.5 and 3.6).
struct LbfgsOptions {
  int history = 10;
  int max_iterations = 100;
  double tolerance = 1e-7;          // of the largest |gradient|
  double change_tolerance = 1e-12;  // relative change of the value
  double c1 = 1e-4;                 // f(x + t·d) ≤ f(x) + c1·t·gᵀd
  double c2 = 0.9;                  // |∇f(x + t·d)ᵀd| ≤ c2·|gᵀd|
};
Minimum minimize_lbfgs(const Function& f, const Tensor& x, const LbfgsOptions& options = {});

// The same for the parameters of a model: `loss` computes the loss from the current model. The parameters are replaced;
// x of the result is all of them in one vector.
Minimum minimize_lbfgs(const std::function<Tensor()>& loss, const Parameters& parameters,
                       const LbfgsOptions& options = {});

// Newton's method whose system H·d = −g is solved by conjugate gradients on hvp, to a tolerance that tightens with the
// gradient, stopping at non-positive curvature; the step is halved until the value decreases enough.
struct NewtonCgOptions {
  int max_iterations = 100;
  int max_products = 0;  // per iteration; 0: twice the number of elements
  double tolerance = 1e-7;
  double c1 = 1e-4;
};
Minimum minimize_newton_cg(const Function& f, const Tensor& x, const NewtonCgOptions& options = {});

}  // namespace optim
}  // namespace ebb
