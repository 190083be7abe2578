// SPDX-License-Identifier: MIT
// Reductions over the rows, and steps after reductions over everything.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

// A thread has a few columns and goes down the rows of its group.
Printer::Kernel Printer::columns_kernel() const {
  std::string row_values;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (instr(v).level == Level::row && !in_epilogue(instr(v))) row_values += define({}, v);
  }
  const int width = plan_.width;
  const std::string given = scalars({}, true), body = leaf({}, plan_.passes[0]);
  std::string text;
  text += given;
  const std::string leaves = number("leaves", (p_.columns() + width - 1) / width);
  text += fmt::format(
      "for (i64 item = (i64)blockIdx.x * {0} + threadIdx.x; item < a.groups * {1}; item += (i64)gridDim.x * {0}) {{\n",
      kThreads, leaves);
  std::string in =
      fmt::format("const i64 group = quotient(item, {0}), leaf = (item - group * {0}) * {1};\n", leaves, width);
  if (plan_.tails)
    in += fmt::format("const int live = a.columns - leaf < {0} ? (int)(a.columns - leaf) : {0};\n", width);
  if (!plan_.passes[0].of_columns.empty()) {
    in += fmt::format("const i64 {} = leaf;\n", plan_.columns.linear) + coordinates(plan_.columns);
    for (const std::int32_t o : plan_.passes[0].of_columns) in += load_line({.in_leaf = true}, plan_.passes[0], o);
  }
  const bool apart = plan_.row_step > 1;
  const std::string step = apart ? number("row_step", plan_.row_step) : "";
  if (apart) {
    in += fmt::format(
        "const i64 band = quotient(group, {0}), band_rows = {0} * a.group_rows, band_first = band * band_rows;\n"
        "const i64 group_first = band_first + (group - band * {0}) * {1};\n"
        "const i64 group_end = band_first + band_rows < a.rows ? band_first + band_rows : a.rows;\n",
        step, kChunkRows);
  } else {
    in += "const i64 group_first = group * a.group_rows;\n";
    in += "const i64 group_end = group_first + a.group_rows < a.rows ? group_first + a.group_rows : a.rows;\n";
  }
  for (const std::int32_t v : plan_.column_sums)
    in += fmt::format(
        "{0} sum{1}[{2}];\n#pragma unroll\nfor (int j = 0; j < {2}; ++j) sum{1}[j] = {3}::nothing<{0}>();\n",
        wide_text(instr(v).type), v, width, reduction_text(instr(v).op));
  std::string chunk;
  for (const std::int32_t v : plan_.column_sums)
    chunk += fmt::format("{0} chunk{1}[{2}];\n#pragma unroll\nfor (int j = 0; j < {2}; ++j) chunk{1}[j] = {3};\n",
                         element_type(v), v, width, nothing(v));
  chunk += fmt::format("const i64 end = begin + {0} < group_end ? begin + {0} : group_end;\n", kChunkRows);
  chunk += fmt::format("#pragma unroll {}\nfor (i64 row = begin; row < end; ++row) {{\n", plan_.row_unroll) +
           indented(coordinates(plan_.rows) + row_values + body, "  ") + "}\n";
  for (const std::int32_t v : plan_.column_sums)
    chunk +=
        fmt::format("#pragma unroll\nfor (int j = 0; j < {0}; ++j) sum{1}[j] = {2}::of(sum{1}[j], ({3})chunk{1}[j]);\n",
                    width, v, reduction_text(instr(v).op), wide_text(instr(v).type));
  in += fmt::format("for (i64 begin = group_first; begin < group_end; begin += {}{}) {{\n", kChunkRows,
                    apart ? " * " + step : "") +
        indented(chunk, "  ") + "}\n";
  if (plan_.whole_columns) {
    in += fmt::format("#pragma unroll\nfor (int j = 0; j < {}; ++j) {{\n  if (j >= {}) continue;\n", width, live({}));
    in += "  const i64 col = leaf + j;\n" + indented(of_column("[j]"), "  ") + "}\n";
  } else {
    for (const std::int32_t v : plan_.column_sums)
      in += fmt::format(
          "#pragma unroll\nfor (int j = 0; j < {0}; ++j) {{\n"
          "  if (j < {1}) a.work[a.sums + ({2} * a.groups + group) * a.columns + leaf + j] = bits_of(sum{3}[j]);\n}}\n",
          width, live({}), sum_number(v), v);
  }
  return {"sweep", bounds(), indented(text + indented(in, "  ") + "}\n", "  ")};
}

// The results of column `col`, whose sums are sumV and `index`.
std::string Printer::of_column(const std::string& index) const {
  const Scope scope{.in_finish = true};
  std::string text = coordinates(plan_.columns);
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.level != Level::column) continue;
    if (i.kind == Kind::columns) {
      text +=
          define(v, converted(fmt::format("sum{}{}", v, index), is_real(i.type) ? RegType::f64 : RegType::i64, i.type));
      continue;
    }
    text += define(scope, v);
    if (is_check(v)) text += check(v, "col");
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    if (instr(p_.outputs[o].value).level == Level::column) text += store(scope, p_.outputs[o], o);
  }
  return text;
}

Printer::Kernel Printer::finish_kernel() const {
  const bool wide = plan_.finish.columns;
  const Scope scope{.in_finish = true};
  std::string text = "__shared__ u64 shared[1024];\n" + scalars(scope, false);
  std::string groups, rest;
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.kind == Kind::total) {
      const std::string kind = fmt::format("{}, {}", reduction_text(i.op), wide_type(v));
      const std::string parts =
          fmt::format("<{}, {}>(a.work + {} * a.parts, a.parts, ", kind, plan_.finish.parts_of_group, total_number(v));
      const std::string sums = fmt::format("a.work + a.group_sums + {} * a.part_groups", total_number(v));
      std::string all = "over_parts" + parts + "shared)";
      if (!wide) {
        groups += "  leave_groups" + parts + sums + ", blockIdx.x, gridDim.x);\n";
        all = fmt::format("gridDim.x > 1 ? over_groups<{}>({}, a.part_groups) : {}", kind, sums, all);
      }
      rest += define(v, narrowed(v, "(" + all + ")"));
    } else if (i.level == Level::scalar && in_epilogue(i)) {
      rest += define(scope, v);
      if (is_check(v)) rest += check(v, "0", "first && ");
    }
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (in_epilogue(i) && i.level == Level::scalar) rest += "if (first) " + store(scope, p_.outputs[o], o);
  }
  const int fewest = plan_.finish.min_blocks;
  const std::string bounds =
      std::to_string(plan_.finish.bound_threads) + (fewest > 0 ? fmt::format(", {}", fewest) : "");
  if (!groups.empty())
    text += "if (gridDim.x > 1) {\n" + groups + "  if (!is_last(a.work + a.counter, gridDim.x, shared)) return;\n}\n";
  if (!wide)
    return {"finish", bounds,
            indented(text + "{\n  const bool first = threadIdx.x == 0;\n" + indented(rest, "  ") + "}\n", "  ")};
  text += rest;

  // Groups of rows in chains, which are added in order; a block has eight columns, or as many as threads if there are
  // no more groups than chains (the order is the same). Several sums at a time, so that more loads are in flight.
  const int loads = plan_.finish.loads_of_chain;
  const std::string chains = number("chains", plan_.finish.chains);
  const std::string bits = number("column_bits", plan_.finish.column_bits);
  std::string sums;
  for (std::size_t from = 0; from < plan_.column_sums.size(); from += plan_.finish.sums_at_a_time) {
    const std::size_t to = std::min(plan_.column_sums.size(), from + plan_.finish.sums_at_a_time);
    std::string fetch, load, loop, leave, add;
    for (std::size_t k = from; k < to; ++k) {
      const std::int32_t v = plan_.column_sums[k];
      const std::string op = reduction_text(instr(v).op), w = wide_text(instr(v).type);
      sums += fmt::format("{0} sum{1} = {2}::nothing<{0}>();\n", w, v, op);
      fetch += fmt::format("    u64 part{}[{}];\n", v, loads);
      load += fmt::format("      part{}[i] = a.work[from + {} * a.groups * a.columns];\n", v, sum_number(v));
      loop += fmt::format("      sum{0} = {1}::of(sum{0}, from_bits(sum{0}, part{0}[i]));\n", v, op);
      leave += fmt::format("  shared[{} + threadIdx.x] = bits_of(sum{});\n", (k - from) * kThreads, v);
      add += fmt::format("    sum{0} = {1}::of(sum{0}, from_bits(sum{0}, shared[{2} + (c << bits) + threadIdx.x]));\n",
                         v, op, (k - from) * kThreads);
    }
    sums += fmt::format(
        "if (chain < chains && col < a.columns) {{\n  for (i64 g = chain; g < a.groups; g += chains * {}) {{\n", loads);
    sums += fetch + fmt::format("#pragma unroll\n    for (int i = 0; i < {}; ++i) {{\n", loads);
    sums += "      const i64 from = a.sums + (g + i * chains < a.groups ? g + i * chains : g) * a.columns + col;\n";
    sums +=
        load + fmt::format("    }}\n#pragma unroll\n    for (int i = 0; i < {} && g + i * chains < a.groups; ++i) {{\n",
                           loads);
    sums += loop + "    }\n  }\n" + leave + "}\n__syncthreads();\n";
    sums += "if (chain == 0 && col < a.columns) {\n  for (int c = 1; c < chains; ++c) {\n" + add +
            "  }\n}\n__syncthreads();\n";
  }
  text += fmt::format("const int chains = (int){}, bits = (int){}, chain = threadIdx.x >> bits;\n", chains, bits);
  text += "for (i64 base = (i64)blockIdx.x << bits; base < a.columns; base += (i64)gridDim.x << bits) {\n";
  text += "  const i64 col = base + (threadIdx.x & ((1 << bits) - 1));\n" + indented(sums, "  ");
  text += "  if (chain == 0 && col < a.columns) {\n" + indented(of_column(""), "    ") + "  }\n}\n";
  return {"finish", bounds, indented(text, "  ")};
}

}  // namespace ebb::cuda
