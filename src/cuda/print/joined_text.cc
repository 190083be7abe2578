// SPDX-License-Identifier: MIT
#include "cuda/print/joined_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cuda/print/printer.h"

namespace ebb::cuda {

Program with_sorted_operands(Program program) {
  for (Instr& i : program.instrs) {
    if (i.kind == Instr::Kind::compute && info(i.op).commutes && i.arg[1] >= 0 && i.arg[1] < i.arg[0])
      std::swap(i.arg[0], i.arg[1]);
  }
  return program;
}

// Kernels become functions whose parameters are named like CUDA's own variables, so that their bodies are unchanged.
std::string joined_text(const Program& program, const KernelPlan& plan, std::size_t most) {
  Arguments args;
  std::string functions, kernels;
  for (const Printer::Kernel& k : Printer(program, plan, args).kernels()) {
    functions += fmt::format("EBB void one_{}(const Args& a, const Block blockIdx, const Block gridDim) {{\n{}}}\n",
                             k.name, k.body);
    kernels += fmt::format(
        R"cuda(extern "C" __global__ void __launch_bounds__({1}) {0}_many(const __grid_constant__ Table a) {{
  int k = 0;
  for (int half = {2}; half; half >>= 1) {{
    if (blockIdx.x >= a.end[k + half - 1]) k += half;
  }}
  const unsigned first = k ? a.end[k - 1] : 0;
  one_{0}(a.of[k], Block{{blockIdx.x - first}}, Block{{a.end[k] - first}});
}}
)cuda",
        k.name, k.bounds, most / 2);
  }
  return "struct Block {\n  unsigned x;\n};\n" + args.text() + functions +
         fmt::format("struct Table {{\n  Args of[{0}];\n  unsigned end[{0}];\n}};\n", most) + kernels;
}

std::vector<std::uint64_t> table_words(std::span<const JoinedSweep> sweeps, std::size_t most) {
  const std::size_t each = sweeps[0].words.size();
  std::vector<std::uint64_t> words(most * each + most / 2);
  std::uint64_t end = 0;
  for (std::size_t k = 0; k < most; ++k) {
    if (k < sweeps.size()) {
      std::copy(sweeps[k].words.begin(), sweeps[k].words.end(), words.begin() + static_cast<std::ptrdiff_t>(k * each));
      end += sweeps[k].blocks;
    }
    words[most * each + k / 2] |= end << (k % 2 * 32);
  }
  return words;
}

}  // namespace ebb::cuda
