// Reductions over the rows, and what comes after reductions over everything.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

namespace {
constexpr std::size_t kSumsAtATime = 4;  // 256 of each in shared memory
constexpr int kLoads = 8;                // of a chain in flight
}  // namespace

// A thread has a few columns and goes down the rows of its group.
std::string Printer::columns_kernel() {
  Pass pass;
  pass.needed.resize(static_cast<std::size_t>(n_));
  std::string row_values;
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.level == Level::row && !in_epilogue(i)) row_values += define(v);
    if (i.level != Level::full) continue;
    if (is_check(v)) pass.checks.push_back(v);
  }
  pass.sums = column_sums_;
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    if (instr(p_.outputs[o].value).level == Level::full) pass.outputs.push_back(o);
  }
  for (const std::int32_t v : pass.sums) need(instr(v).arg[0], pass.needed);
  for (const std::int32_t v : pass.checks) {
    need(v, pass.needed);
    need(instr(v).arg[1], pass.needed);
  }
  for (const std::size_t o : pass.outputs) need(p_.outputs[o].value, pass.needed);

  const int width = layout_.width;
  const std::string given = scalars(true), body = leaf(pass);
  std::string text;
  text += given;
  const std::string leaves = number("leaves", (p_.columns() + width - 1) / width);
  text += fmt::format(
      "for (i64 item = (i64)blockIdx.x * {0} + threadIdx.x; item < a.groups * {1}; item += (i64)gridDim.x * {0}) {{\n",
      kThreads, leaves);
  std::string in =
      fmt::format("const i64 group = quotient(item, {0}), leaf = (item - group * {0}) * {1};\n", leaves, width);
  in += "const i64 group_first = group * a.group_rows;\n";
  in += "const i64 group_end = group_first + a.group_rows < a.rows ? group_first + a.group_rows : a.rows;\n";
  for (const std::int32_t v : column_sums_)
    in += fmt::format(
        "{0} sum{1}[{2}];\n#pragma unroll\nfor (int j = 0; j < {2}; ++j) sum{1}[j] = {3}::nothing<{0}>();\n",
        wide_text(instr(v).type), v, width, reduction_text(instr(v).op));
  std::string chunk;
  for (const std::int32_t v : column_sums_)
    chunk += fmt::format("{0} chunk{1}[{2}];\n#pragma unroll\nfor (int j = 0; j < {2}; ++j) chunk{1}[j] = {3};\n",
                         element_type(v), v, width, nothing(v));
  chunk += fmt::format("const i64 end = begin + {0} < group_end ? begin + {0} : group_end;\n", kChunkRows);
  // Loads of many rows in flight; where functions are computed, more warps do better.
  const bool functions = std::any_of(p_.instrs.begin(), p_.instrs.end(), [](const Instr& i) {
    return i.level == Level::full && i.kind == Kind::compute && info(i.op).costly;
  });
  chunk += fmt::format("#pragma unroll {}\nfor (i64 row = begin; row < end; ++row) {{\n", functions ? 2 : 8) +
           indented(coordinates(layout_.rows) + row_values + body, "  ") + "}\n";
  for (const std::int32_t v : column_sums_)
    chunk +=
        fmt::format("#pragma unroll\nfor (int j = 0; j < {0}; ++j) sum{1}[j] = {2}::of(sum{1}[j], ({3})chunk{1}[j]);\n",
                    width, v, reduction_text(instr(v).op), wide_text(instr(v).type));
  in += fmt::format("for (i64 begin = group_first; begin < group_end; begin += {}) {{\n", kChunkRows) +
        indented(chunk, "  ") + "}\n";
  if (layout_.tails)
    in += fmt::format("const int live = a.columns - leaf < {0} ? (int)(a.columns - leaf) : {0};\n", width);
  for (const std::int32_t v : column_sums_)
    in += fmt::format(
        "#pragma unroll\nfor (int j = 0; j < {0}; ++j) {{\n"
        "  if (j < {1}) a.work[a.sums + ({2} * a.groups + group) * a.columns + leaf + j] = bits_of(sum{3}[j]);\n}}\n",
        width, live(), sum_number(v), v);
  return head("sweep", fmt::format("{}{}", kThreads, functions ? ", 3" : "")) +
         indented(text + indented(in, "  ") + "}\n", "  ") + "}\n";
}

std::string Printer::finish_kernel() {
  in_finish_ = true;
  const bool wide = sums_of_columns();
  std::string text = "__shared__ u64 shared[1024];\n" + scalars(false);
  std::string groups, rest;
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.kind == Kind::total) {
      const std::string kind = fmt::format("{}, {}", reduction_text(i.op), wide_type(v));
      const std::string parts =
          fmt::format("<{}, {}>(a.work + {} * a.parts, a.parts, ", kind, layout_.parts_of_group(), total_number(v));
      const std::string sums = fmt::format("a.work + a.group_sums + {} * a.part_groups", total_number(v));
      std::string all = "over_parts" + parts + "shared)";
      if (!wide) {
        groups += "  leave_groups" + parts + sums + ", blockIdx.x, gridDim.x);\n";
        all = fmt::format("gridDim.x > 1 ? over_groups<{}>({}, a.part_groups) : {}", kind, sums, all);
      }
      rest += define(v, narrowed(v, "(" + all + ")"));
    } else if (i.level == Level::scalar && in_epilogue(i)) {
      rest += define(v);
      if (is_check(v)) rest += check(v, "0", "first && ");
    }
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (in_epilogue(i) && i.level == Level::scalar) rest += "if (first) " + store(p_.outputs[o], o);
  }
  const std::string top = head("finish", layout_.finish_bounds());
  if (!groups.empty())
    text += "if (gridDim.x > 1) {\n" + groups + "  if (!is_last(a.work + a.counter, gridDim.x, shared)) return;\n}\n";
  if (!wide)
    return top + indented(text + "{\n  const bool first = threadIdx.x == 0;\n" + indented(rest, "  ") + "}\n", "  ") +
           "}\n";
  text += rest;

  // Groups of rows in chains, which are added in order; a block has eight columns, or as many as threads where there
  // are no more groups than chains (the order is the same). Several sums at a time, so that more loads are in flight.
  const std::string chains = number("chains", layout_.finish_chains());
  const std::string bits = number("column_bits", layout_.finish_column_bits());
  std::string sums, columns = coordinates(layout_.columns);
  for (std::size_t from = 0; from < column_sums_.size(); from += kSumsAtATime) {
    const std::size_t to = std::min(column_sums_.size(), from + kSumsAtATime);
    std::string fetch, load, loop, leave, add;
    for (std::size_t k = from; k < to; ++k) {
      const std::int32_t v = column_sums_[k];
      const std::string op = reduction_text(instr(v).op), w = wide_text(instr(v).type);
      sums += fmt::format("{0} sum{1} = {2}::nothing<{0}>();\n", w, v, op);
      fetch += fmt::format("    u64 part{}[{}];\n", v, kLoads);
      load += fmt::format("      part{}[i] = a.work[from + {} * a.groups * a.columns];\n", v, sum_number(v));
      loop += fmt::format("      sum{0} = {1}::of(sum{0}, from_bits(sum{0}, part{0}[i]));\n", v, op);
      leave += fmt::format("  shared[{} + threadIdx.x] = bits_of(sum{});\n", (k - from) * kThreads, v);
      add += fmt::format("    sum{0} = {1}::of(sum{0}, from_bits(sum{0}, shared[{2} + (c << bits) + threadIdx.x]));\n",
                         v, op, (k - from) * kThreads);
    }
    sums += fmt::format(
        "if (chain < chains && col < a.columns) {{\n  for (i64 g = chain; g < a.groups; g += chains * {}) {{\n",
        kLoads);
    sums += fetch + fmt::format("#pragma unroll\n    for (int i = 0; i < {}; ++i) {{\n", kLoads);
    sums += "      const i64 from = a.sums + (g + i * chains < a.groups ? g + i * chains : g) * a.columns + col;\n";
    sums +=
        load + fmt::format("    }}\n#pragma unroll\n    for (int i = 0; i < {} && g + i * chains < a.groups; ++i) {{\n",
                           kLoads);
    sums += loop + "    }\n  }\n" + leave + "}\n__syncthreads();\n";
    sums += "if (chain == 0 && col < a.columns) {\n  for (int c = 1; c < chains; ++c) {\n" + add +
            "  }\n}\n__syncthreads();\n";
  }
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.level != Level::column) continue;
    if (i.kind == Kind::columns) {
      columns += define(v, converted(fmt::format("sum{}", v), is_real(i.type) ? RegType::f64 : RegType::i64, i.type));
      continue;
    }
    columns += define(v);
    if (is_check(v)) columns += check(v, "col");
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    if (instr(p_.outputs[o].value).level == Level::column) columns += store(p_.outputs[o], o);
  }
  text += fmt::format("const int chains = (int){}, bits = (int){}, chain = threadIdx.x >> bits;\n", chains, bits);
  text += "for (i64 base = (i64)blockIdx.x << bits; base < a.columns; base += (i64)gridDim.x << bits) {\n";
  text += "  const i64 col = base + (threadIdx.x & ((1 << bits) - 1));\n" + indented(sums, "  ");
  text += "  if (chain == 0 && col < a.columns) {\n" + indented(columns, "    ") + "  }\n}\n";
  return top + indented(text, "  ") + "}\n";
}

}  // namespace ebb::cuda
