// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/plan/kernel_plan.h"
#include "sweep/program.h"

namespace ebb::cuda {

// The same program with the operands of a·b in creation order: a·b and b·a have one text.
Program with_sorted_operands(Program program);

// The kernels of a plan in a form that runs many sweeps by one launch: the blocks of one after those of another, each
// with its own Args from a table. `sweep_many` and, if there is one, `finish_many` take a struct Table of up to `most`
// (a power of two) sweeps.
std::string joined_text(const Program& program, const KernelPlan& plan, std::size_t most);

// The words of a Table: each sweep's Args and number of blocks.
struct JoinedSweep {
  std::vector<std::uint64_t> words;
  unsigned blocks = 0;
};
std::vector<std::uint64_t> table_words(std::span<const JoinedSweep> sweeps, std::size_t most);

}  // namespace ebb::cuda
