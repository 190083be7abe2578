// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/autograd.h"

// Gradients checked against central differences, for those who write their own functions and rules.
namespace ebb {

struct GradcheckOptions {
  // |analytic − numeric| <= atol + rtol·|numeric|. Below 0: chosen by the input's dtype
  // (f64 1e-6 and 1e-8, f32 1e-5 and 1e-6, f16 1e-2 and 1e-3, bf16 2e-2 and 1e-2).
  double rtol = -1;
  double atol = -1;
  double step = 0;         // elements move by step·max(1, |x|); 0: the cube root of f64's epsilon, about 6e-6
  std::uint64_t seed = 0;  // of the random cotangent
};

// One row per differentiated input, with the element that is furthest from passing.
struct GradcheckReport {
  struct Row {
    std::string input;  // "input 0", "cotangent"
    DType dtype = DType::f64;
    Shape shape;
    std::vector<std::int64_t> worst;  // its position; empty for a scalar or an empty input
    double analytic = 0;
    double numeric = 0;
    double tolerance = 0;
    bool passed = true;
  };
  std::vector<Row> rows;

  bool passed() const;
  std::string str() const;  // an aligned table
};
std::ostream& operator<<(std::ostream& os, const GradcheckReport& report);

// df/dx by central differences, in f64 whatever the dtype of x. The result of f must have one element, unless a
// cotangent is given: then it is the gradient of sum(f(x)·cotangent). Random operations in f repeat the same numbers.
Tensor numerical_gradient(const Function& f, const Tensor& x, const Tensor& cotangent = {},
                          const GradcheckOptions& options = {});

// The gradient of f's result, times a random cotangent (one of all ones would hide errors in softmax and similar
// functions), with respect to every floating input. Finite differences evaluate f at the same inputs in f64, so f must
// accept any dtype. Keep inputs away from kinks.
GradcheckReport check_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                                const GradcheckOptions& options = {});
GradcheckReport check_gradients(const Function& f, const Tensor& x, const GradcheckOptions& options = {});

// The same for the gradient itself: second derivatives, and derivatives with respect to the cotangent.
GradcheckReport check_second_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                                       const GradcheckOptions& options = {});
GradcheckReport check_second_gradients(const Function& f, const Tensor& x, const GradcheckOptions& options = {});

// For tests: throws an Error with the table unless the check passes.
void require_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                       const GradcheckOptions& options = {});
void require_gradients(const Function& f, const Tensor& x, const GradcheckOptions& options = {});
void require_second_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});
void require_second_gradients(const Function& f, const Tensor& x, const GradcheckOptions& options = {});

}  // namespace ebb
