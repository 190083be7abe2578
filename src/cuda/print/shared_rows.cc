// SPDX-License-Identifier: MIT
// Few long rows: a kernel per pass, whose blocks share the segments of each row. Their sums are in memory, and each
// later kernel adds them again, in the order in which a block of a row of its own would have added them.
#include <fmt/format.h>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

std::string Printer::parts_of(int stage, std::size_t reduction) const {
  if (!plan_.shares_rows()) return fmt::format("parts[turn][{}]", reduction);
  return fmt::format("(a.work + a.segment_sums + ({} * a.rows + row) * a.segments)",
                     plan_.parts_before(stage) + static_cast<std::int64_t>(reduction));
}

std::string Printer::shared_pass(int stage) const {
  const PassPlan& pass = plan_.passes[static_cast<std::size_t>(stage)];
  if (!pass.softmax.empty()) return softmax_leaves(stage);
  std::string end;
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    end += fmt::format("const {0} total{1} = sum{1}.segment<32>();\n", wide_type(v), v);
    end += fmt::format("if (lane == 0) {}[segment] = bits_of(total{});\n", parts_of(stage, r), v);
  }
  return reductions_begin(pass) +
         over_leaves({{[&](const Scope& scope) { return leaf(scope, pass); }, end, pass.unroll}});
}

std::string Printer::shared_results(int stage) const {
  const PassPlan& pass = plan_.passes[static_cast<std::size_t>(stage)];
  if (!pass.softmax.empty()) return softmax_results(stage);
  std::string text;
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    text += fmt::format("const {} all{} = over_row<{}, {}, {}>({}, a.segments, groups);\n", wide_type(v), v,
                        reduction_text(instr(v).op), wide_type(v), kGroup, parts_of(stage, r));
    text += instr(v).kind == Kind::reduce
                ? define(v, narrowed(v, fmt::format("all{}", v)))
                : fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of(all{});\n", total_number(v), v);
  }
  return text;
}

std::vector<Printer::Kernel> Printer::shared_rows_kernels() const {
  std::vector<Kernel> made;
  const auto softmax = [&](int stage) { return !plan_.passes[static_cast<std::size_t>(stage)].softmax.empty(); };
  std::string known = coordinates(plan_.rows);  // after the passes of earlier kernels
  std::string made_here, found_there;           // row values since the last of them, and as later kernels have them
  for (int stage = 0; stage <= p_.stages; ++stage) {
    const bool ends = stage == p_.stages;
    if (!ends) {
      made_here += row_values(stage);
      found_there += row_values(stage, true);
    }
    if (ends ? !plan_.ends_rows : plan_.passes[static_cast<std::size_t>(stage)].empty()) continue;
    std::string text = scalars({}, made.size() + 1 == static_cast<std::size_t>(plan_.launch.launches));
    text +=
        fmt::format("const {0} columns = ({0})a.columns, segments = ({0})a.segments;\n", plan_.small ? "int" : "i64");
    // Blocks of one part of all rows are neighbours: where rows lie side by side they read the same memory.
    text += "const i64 row = blockIdx.x % (u32)a.rows;\nconst int share = (int)(blockIdx.x / (u32)a.rows);\n";
    text += "const int lane = threadIdx.x & 31, warp = share * (int)(blockDim.x >> 5) + (int)(threadIdx.x >> 5);\n";
    text += "const int warps = (int)a.row_blocks * (int)(blockDim.x >> 5);\n";
    text += "const bool lead = share == 0 && threadIdx.x == 0;\n";
    if (ends) text += "if (share > 0) return;\n";
    if (!made.empty()) text += "__shared__ u64 groups[32];\n";
    text += known + made_here;
    text += ends ? "__syncthreads();\n" + end_of_rows() : shared_pass(stage);  // results may replace a row's operands
    made.push_back({made.empty() ? "sweep" : fmt::format("sweep_{}", made.size()), bounds(),
                    indented(counter_begins() + text, "  ")});
    if (ends) break;
    known += found_there + shared_results(stage);
    made_here = found_there = "";
    stage += softmax(stage);
  }
  return made;
}

}  // namespace ebb::cuda
