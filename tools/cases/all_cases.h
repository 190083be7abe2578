// SPDX-License-Identifier: MIT
#pragma once
#include "cases/cases.h"

// Every operation of the table, with a plain reference for each.
namespace ebb::table {

const std::vector<Case>& all_cases();

struct Operands {
  Arrays arrays;  // the reference's inputs: the numbers rounded to the dtype
  Tensors tensors;
};
Operands draw(const Case& c, const std::vector<Index>& shapes, DType dtype, Layout layout, unsigned seed);

}  // namespace ebb::table
