// SPDX-License-Identifier: MIT
#pragma once
#include "cases/cases.h"

// Every operation of the table, with a plain reference for each.
namespace ebb::table {

const std::vector<Case>& all_cases();

struct Operands {
  Arrays arrays;  // what the reference sees: the numbers as the dtype keeps them
  Tensors tensors;
};
Operands draw(const Case& c, const std::vector<Index>& shapes, DType dtype, Layout layout, unsigned seed);

}  // namespace ebb::table
