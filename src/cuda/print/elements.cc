// SPDX-License-Identifier: MIT
// Sweeps without rows: a thread takes a few neighbours, anywhere, or a few columns of rows that share
// operands.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

Printer::Kernel Printer::elements_kernel() const {
  const PassPlan& pass = plan_.passes[0];
  const std::string given = scalars({}, true), body = leaf({}, pass);
  Kernel kernel{"sweep", bounds(), indented(counter_begins() + given, "  ")};
  std::string& text = kernel.body;
  if (plan_.together > 1) {
    const int count = plan_.together;
    const auto over_elements = [&](const std::string& each) {
      return fmt::format("#pragma unroll\nfor (int u = 0; u < {}; ++u) {{\n  const i64 leaf = first_leaf + u * {};\n",
                         count, kThreads) +
             "  if (leaf < a.n) {\n" + indented(each, "    ") + "  }\n}\n";
    };
    std::string in, loads = fmt::format("const i64 {} = leaf;\n", plan_.elements.linear) + coordinates(plan_.elements);
    for (const std::int32_t o : pass.ahead) {
      const Operand& operand = p_.operands[at(o)];
      const std::string type = memory_text(operand.dtype);
      in += plan_.access(operand.strides, operand.dtype) == Access::one
                ? fmt::format("{} ahead{}[{}];\n", type, o, count)
                : fmt::format("Pack<{}, 1> ahead{}[{}];\n", type, o, count);
      loads += load_line({.in_leaf = true, .whole = true}, pass, o) + fmt::format("ahead{0}[u] = x{0};\n", o);
    }
    if (!pass.ahead.empty()) in += over_elements(loads);
    in += over_elements(body);
    text += fmt::format(
        "  for (i64 first_leaf = (i64)blockIdx.x * {0} + threadIdx.x; first_leaf < a.n; first_leaf += (i64)gridDim.x * "
        "{0}) {{\n",
        kThreads * count);
    text += indented(in, "    ") + "  }\n";
    return kernel;
  }
  if (plan_.totals.empty()) {
    text += fmt::format(
        "  for (i64 leaf = ((i64)blockIdx.x * {0} + threadIdx.x) * {1}; leaf < a.n; leaf += (i64)gridDim.x * {2}) {{\n",
        kThreads, plan_.width, kThreads * plan_.width);
    text += indented(body, "    ") + "  }\n";
    return kernel;
  }
  text += "  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n";
  text += fmt::format("  __shared__ u64 of_warps[{}][{}];\n", plan_.totals.size(), kChunk);
  text += "  for (i64 chunk = blockIdx.x; chunk < a.parts; chunk += gridDim.x) {\n";
  static_assert(kThreads == 32 * kChunk, "a segment for each warp");
  text += fmt::format("    const i64 part = chunk / {} * {} + chunk / 32 % {} * {} + warp * 32 + chunk % 32;\n",
                      plan_.finish.parts_of_group, kGroup, kGroup / (32 * kChunk), 32 * kChunk);
  for (const std::int32_t v : plan_.totals)
    text += fmt::format("    Reduction<{}, {}, {}> sum{};\n", reduction_text(instr(v).op), element_type(v),
                        wide_type(v), v);
  const auto leaves = [&](int written_out, const std::string& check, const std::string& of_leaf) {
    std::string loop = fmt::format("#pragma unroll {}\nfor (int k = 0; k < {}; ++k) {{\n", written_out, kLeaves);
    loop += fmt::format("  const i64 leaf = part * {} + k * {} + lane * {};\n", kSegment, 32 * kLeaf, kLeaf);
    return loop + check + indented(of_leaf, "  ") + "}\n";
  };
  const std::string check = "  if (leaf >= a.n) break;\n";
  if (pass.unroll == 1) {
    text += indented(leaves(1, check, body), "    ");
  } else {
    const std::string whole = leaf({.whole = true}, pass);
    text += fmt::format("    if ((part + 1) * {} <= a.n) {{\n", kSegment) +
            indented(leaves(pass.unroll, "", whole), "      ") + "    } else {\n" +
            indented(leaves(1, check, body), "      ") + "    }\n";
  }
  std::string add;
  for (std::size_t t = 0; t < plan_.totals.size(); ++t) {
    const std::int32_t v = plan_.totals[t];
    text += fmt::format("    const {0} segment{1} = sum{1}.segment<32>();\n", wide_type(v), v);
    text += fmt::format("    if (lane == 0) of_warps[{}][warp] = bits_of(segment{});\n", t, v);
    add += fmt::format("      {0} all{1} = {2}::nothing<{0}>();\n", wide_type(v), v, reduction_text(instr(v).op));
    add += fmt::format(
        "#pragma unroll\n      for (int k = 0; k < {0}; ++k) all{1} = {2}::of(all{1}, from_bits(all{1}, "
        "of_warps[{3}][k]));\n",
        kChunk, v, reduction_text(instr(v).op), t);
    add += fmt::format("      a.work[{} * a.parts + chunk] = bits_of(all{});\n", t, v);
  }
  text += "    __syncthreads();\n    if (threadIdx.x == 0) {\n" + add + "    }\n    __syncthreads();\n";
  text += "  }\n";
  return kernel;
}

// A thread has a few columns and goes down rows that are row_step apart. Operands that repeat in every row are loaded
// first; for the others, some rows are loaded before the first of them is stored, since the compiler cannot know that a
// store changes none of them.
Printer::Kernel Printer::down_rows_kernel() const {
  const PassPlan& pass = plan_.passes[0];
  const Scope in_leaf{.in_leaf = true};
  const int width = plan_.width, rows = plan_.row_unroll;
  const std::string given = scalars({}, true), body = leaf({}, pass);
  const std::string leaves = number("leaves", plan_.row_packs), strips = number("strips", plan_.strips);
  const std::string step = number("row_step", plan_.row_step), each = number("thread_rows", plan_.thread_rows);
  std::string in = fmt::format(
      "const i64 strip = quotient(item, {0}), leaf = (item - strip * {0}) * {1};\n"
      "const i64 band = quotient(strip, {2}), band_first = band * {2} * {3};\n"
      "const i64 end = band_first + {2} * {3} < a.rows ? band_first + {2} * {3} : a.rows;\n",
      leaves, width, step, each);
  const std::string live =
      plan_.tails
          ? fmt::format("const int live = a.row_elements - leaf < {0} ? (int)(a.row_elements - leaf) : {0};\n", width)
          : "";
  // All lanes of the warp have consecutive packs of one row.
  const bool stores_packs = std::any_of(pass.outputs.begin(), pass.outputs.end(), [&](std::size_t o) {
    return plan_.access(p_.outputs[o].strides, p_.outputs[o].dtype) == Access::pack;
  });
  if (stores_packs && plan_.columns.sizes.size() < 2)
    in += fmt::format(
        "const i64 warp_leaf = leaf - (int)(threadIdx.x & 31) * {0};\n"
        "const bool beside = warp_leaf >= 0 && warp_leaf + {1} <= a.row_elements;\n",
        width, 32 * width);
  in += live + fmt::format("const i64 {} = leaf;\n", plan_.columns.linear) + coordinates(plan_.columns);
  for (const std::int32_t o : pass.of_columns) in += load_line(in_leaf, pass, o);
  const auto over_rows = [&](const std::string& text) {
    return fmt::format("#pragma unroll\nfor (int u = 0; u < {}; ++u) {{\n  const i64 row = first_row + u * {};\n", rows,
                       step) +
           "  if (row < end) {\n" + indented(coordinates(plan_.rows) + text, "    ") + "  }\n}\n";
  };
  std::string loads, of_rows;
  for (const std::int32_t o : pass.ahead) {
    of_rows += fmt::format("Pack<{}, {}> ahead{}[{}];\n", memory_text(p_.operands[at(o)].dtype), width, o, rows);
    loads += "{\n" + indented(load_line(in_leaf, pass, o), "  ") + fmt::format("  ahead{0}[u] = x{0};\n}}\n", o);
  }
  if (!loads.empty()) of_rows += over_rows(loads);
  of_rows += over_rows(body);
  in +=
      fmt::format("for (i64 first_row = band_first + strip - band * {0}; first_row < end; first_row += {1} * {0}) {{\n",
                  step, rows) +
      indented(of_rows, "  ") + "}\n";
  return {"sweep", bounds(),
          indented(given, "  ") +
              fmt::format("  for (i64 item = (i64)blockIdx.x * {0} + threadIdx.x; item < {1} * {2}; item += "
                          "(i64)gridDim.x * {0}) {{\n",
                          kThreads, leaves, strips) +
              indented(in, "    ") + "  }\n"};
}

}  // namespace ebb::cuda
