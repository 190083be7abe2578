// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// An einsum equation with every axis named by a letter: ellipses are expanded to unused letters, the output is
// explicit, and the sizes of all indices are known.
struct EinsumTerms {
  std::vector<std::string> inputs;
  std::string output;
  std::map<char, std::int64_t> size;
};

// Throws Error when the equation is malformed or does not fit the operands.
EinsumTerms einsum_terms(const std::string& equation, const std::vector<Tensor>& operands);

}  // namespace ebb
