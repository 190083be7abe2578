#include "cuda/print/joined_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <utility>

namespace ebb::cuda {

Program with_sorted_operands(Program program) {
  for (Instr& i : program.instrs) {
    if (i.kind == Instr::Kind::compute && info(i.op).commutes && i.arg[1] >= 0 && i.arg[1] < i.arg[0])
      std::swap(i.arg[0], i.arg[1]);
  }
  return program;
}

// The printed kernels become functions whose parameters are named like CUDA's own variables, so that their text stays
// as it is.
std::string joined_text(const std::string& text, std::size_t most) {
  static const std::regex head(
      R"re(extern "C" __global__ void (__launch_bounds__\([^)]*\)?\)) (\w+)\(const Args a\) \{)re");
  std::string functions, kernels;
  std::size_t done = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), head), end; it != end; ++it) {
    const std::string bounds = (*it)[1], name = (*it)[2];
    const auto at = static_cast<std::size_t>(it->position());
    functions += text.substr(done, at - done);
    functions += fmt::format("EBB void one_{}(const Args& a, const Block blockIdx, const Block gridDim) {{", name);
    done = at + static_cast<std::size_t>(it->length());
    kernels += fmt::format(R"cuda(extern "C" __global__ void {1} {0}_many(const __grid_constant__ Table a) {{
  int k = 0;
  for (int half = {2}; half; half >>= 1) {{
    if (blockIdx.x >= a.end[k + half - 1]) k += half;
  }}
  const unsigned first = k ? a.end[k - 1] : 0;
  one_{0}(a.of[k], Block{{blockIdx.x - first}}, Block{{a.end[k] - first}});
}}
)cuda",
                           name, bounds, most / 2);
  }
  if (kernels.empty()) return "";
  return "struct Block {\n  unsigned x;\n};\n" + functions + text.substr(done) +
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
