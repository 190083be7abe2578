// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/losses/registry.h"

// Inputs and options for every loss of the registry, in f64 and away from kinks, for tests that iterate over all
// losses. Optional inputs are given and options are not their defaults, so that a forgotten one shows.
namespace ebb::cases {

struct LossCase {
  std::string_view loss;
  LossInputValues inputs;
  LossOptionValues options = {};
};

std::vector<LossCase> loss_cases();

// Is its gradient the derivative of its value? Not if a factor of the value counts as a constant: such gradients are
// checked against their formula (losses_kernels/named_test.cc, linear_preference_test.cc).
inline bool gradient_is_slope(std::string_view loss) { return loss != "dft_loss" && loss != "linear_dft_loss"; }

// A case as a function of its differentiated inputs: `moving` holds them, in the registry's order.
struct LossFunction {
  std::vector<std::string> names;
  std::vector<Tensor> moving;
  FunctionOfMany call;
};
LossFunction function_of(const LossCase& c);

}  // namespace ebb::cases
