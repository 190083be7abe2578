// SPDX-License-Identifier: MIT
// Sweeps with rows: stages of passes over each row.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

std::string Printer::reductions_begin(const PassPlan& pass) const {
  std::string text;
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r], halves = pass.half_maxima[r];
    text += halves >= 0 ? fmt::format("MostOfHalves<{}> sum{};\n", p_.operands[at(halves)].dtype == DType::bf16, v)
                        : fmt::format("Reduction<{}, {}, {}> sum{};\n", reduction_text(instr(v).op), element_type(v),
                                      wide_type(v), v);
  }
  return text;
}

// A row of more segments than a group has: one group after the other.
std::string Printer::over_groups_of_segments(const std::string& text) const {
  const std::string end =
      fmt::format("const i64 end_segment = {0} - first_segment < {1} ? {0} : first_segment + {1};\n",
                  number("segments", plan_.segments), kGroup);
  return fmt::format("for (i64 first_segment = 0; first_segment < a.segments; first_segment += {}) {{\n", kGroup) +
         indented(end + text, "  ") + "}\n";
}

std::string Printer::row_pass(int stage) const {
  const PassPlan& pass = plan_.passes[static_cast<std::size_t>(stage)];
  if (pass.empty()) return "";
  const bool by_owner = pass.placed_by_owner;
  std::string text, end;
  if (by_owner) text += placed_before(pass);
  const bool next = stage == plan_.last_pass && !plan_.staged.empty();
  const bool by_leaf = next && !plan_.skewed;  // the next row's leaf is copied where one of this row is done with
  const std::string sent = pass.takes_row || (next && plan_.skewed && !plan_.holds_row()) ? send_for_next_row() : "";
  if (by_leaf && !plan_.holds_row()) text += next_row();
  const LeafBody body = [&](const Scope& outside) {
    Scope scope = outside;
    scope.places = !by_owner;
    return leaf(scope, pass) + (by_leaf && !(scope.in_registers && plan_.holds_row()) ? copy_next(scope) : "");
  };
  text += reductions_begin(pass);
  const auto give = [&](std::int32_t v, const std::string& all) {
    if (instr(v).kind == Kind::reduce) return define(v, narrowed(v, all));
    return fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of({});\n", total_number(v), all);
  };
  if (plan_.row_in_warp()) {
    text += over_leaves({{body, "", pass.unroll}}) + sent + (by_owner ? placed_after(pass) : "");
    for (const std::int32_t v : pass.reductions) {
      text += fmt::format("const {0} all{1} = sum{1}.segment<{2}>();\n", wide_type(v), v, plan_.lanes);
      text += give(v, fmt::format("all{}", v));
    }
    return text;
  }
  if (pass.reductions.empty() && !plan_.long_row)
    return text + over_leaves({{body, "", pass.unroll}}) + sent + (by_owner ? placed_after(pass) : "");
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    end += fmt::format("const {0} total{1} = sum{1}.segment<32>();\n", wide_type(v), v);
    end += fmt::format("if (lane == 0) parts[turn][{}][segment{}] = bits_of(total{});\n", r,
                       plan_.long_row ? " - first_segment" : "", v);
  }
  const auto over = [&](std::size_t r, const std::string& count) {
    const std::int32_t v = pass.reductions[r];
    return fmt::format("over_segments<{}, {}>(parts[turn][{}], (int){})", reduction_text(instr(v).op), wide_type(v), r,
                       count);
  };
  if (!plan_.long_row) {
    text +=
        over_leaves({{body, end, pass.unroll}}) + sent + (by_owner ? placed_after(pass) : "") + "__syncthreads();\n";
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
      const std::int32_t v = pass.reductions[r];
      text += fmt::format("const {} all{} = {};\n", wide_type(v), v, over(r, "segments")) +
              give(v, fmt::format("all{}", v));
    }
    return text + "turn ^= 1;\n";
  }
  for (const std::int32_t v : pass.reductions)
    text += fmt::format("{0} top{1} = {2}::nothing<{0}>();\n", wide_type(v), v, reduction_text(instr(v).op));
  std::string groups = over_leaves({{body, end, pass.unroll}});
  if (!pass.reductions.empty()) groups += "__syncthreads();\n";
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    groups += fmt::format("const {0} group{1} = {2};\n", wide_type(v), v, over(r, "(end_segment - first_segment)"));
    groups += fmt::format("if (lane == (first_segment / {0} & 31)) top{1} = {2}::of(top{1}, group{1});\n", kGroup, v,
                          reduction_text(instr(v).op));
  }
  if (!pass.reductions.empty()) groups += "turn ^= 1;\n";
  text += over_groups_of_segments(groups);
  for (const std::int32_t v : pass.reductions) {
    text += fmt::format("const {} all{} = over_lanes<{}>(top{});\n", wide_type(v), v, reduction_text(instr(v).op), v) +
            give(v, fmt::format("all{}", v));
  }
  return text;
}

// Values of rows in one stage, before its pass; those of reductions come with the pass. `again`: what the kernel of an
// earlier pass has picked is in memory.
std::string Printer::row_values(int stage, bool again) const {
  std::string text;
  int picked = -1;
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.kind == Kind::place && i.stage == stage) {
      text += check(v, "row", "lead && ");
      text += fmt::format("const {0} place{1} = (u64){2} < (u64)a.columns ? ({0}){2} : -1;\n",
                          plan_.small ? "int" : "i64", v, name(i.arg[1]));
    }
    picked += i.kind == Kind::pick;
    if (i.level != Level::row || i.stage != stage || in_epilogue(i)) continue;
    if (i.kind == Kind::reduce) continue;
    if (i.kind == Kind::pick) {
      const std::string memory = fmt::format("a.work[a.picked + {} * a.rows + row]", picked);
      if (again) {
        text += fmt::format("const {0} {1} = from_bits(({0})0, {2});\n", type_text(i.type), name(v), memory);
      } else {
        text += pick(v);
        if (plan_.shares_rows()) text += fmt::format("if (lead) {} = bits_of({});\n", memory, name(v));
      }
      continue;
    }
    text += define({}, v);
    if (is_check(v)) text += check(v, "row", "lead && ");
  }
  return text;
}

// The element at its column, recomputed from its inputs by every thread of the row: they read the same address.
std::string Printer::pick(std::int32_t v) const {
  const Instr& i = instr(v);
  const std::vector<char> needed = needed_by(i.arg[0]);
  std::string text = check(v, "row", "lead && ");
  text += fmt::format("{} {} = 0;\n", type_text(i.type), name(v));
  text += fmt::format("if ((u64){} < (u64)a.columns) {{\n", name(i.arg[1]));
  text += fmt::format("  const i64 col = {};\n", name(i.arg[1]));
  text += indented(coordinates(plan_.columns), "  ");
  for (std::int32_t u = 0; u < n_; ++u) {
    if (needed[at(u)]) text += "  " + define({}, u);
  }
  return text + fmt::format("  {} = {};\n}}\n", name(v), name(i.arg[0]));
}

// The elements at the places, before the pass: it may overwrite their inputs.
std::string Printer::placed_before(const PassPlan& pass) const {
  std::string text;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[at(v)] || instr(v).kind != Kind::place) continue;
    std::vector<char> needed(p_.instrs.size());
    std::string give;
    for (const std::size_t o : pass.outputs) {
      const std::int32_t value = p_.outputs[o].value;
      need(p_, plan_, value, needed);
      text += fmt::format("{} at_place{}_{} = 0;\n", type_text(instr(value).type), v, o);
      give += fmt::format("  at_place{}_{} = {};\n", v, o, name(value));
    }
    text += fmt::format("if (place{0} >= 0) {{\n  const i64 col = place{0};\n", v);
    text += indented(coordinates(plan_.columns), "  ");
    for (std::int32_t u = 0; u < n_; ++u) {
      if (needed[at(u)]) text += "  " + define({}, u);
    }
    text += give + "}\n";
  }
  return text;
}

std::string Printer::placed_after(const PassPlan& pass) const {
  std::string text = "__syncwarp();\n";  // neighbours store for each other: see store_pack
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[at(v)] || instr(v).kind != Kind::place) continue;
    // Which thread has it: see over_leaves.
    const bool lanes = plan_.row_in_warp();
    std::string owner = fmt::format("(place{} / {}) % {} == lane", v, kLeaf, lanes ? plan_.lanes : 32);
    if (!lanes) owner += fmt::format(" && (place{} / {}) % warps == warp", v, kSegment);
    text += fmt::format("if (place{0} >= 0 && {1}) {{\n  const i64 col = place{0};\n", v, owner);
    text += indented(coordinates(plan_.columns), "  ");
    for (const std::size_t o : pass.outputs) {
      text += "  " + define(p_.outputs[o].value, fmt::format("at_place{}_{}", v, o));
      text += "  " + store({}, p_.outputs[o], o);
    }
    text += "}\n";
  }
  return text;
}

std::string Printer::row_body() const {
  std::string text;
  for (int stage = 0; stage < p_.stages; ++stage) {
    text += fmt::format("// stage {}\n", stage);
    if (stage > 0) text += row_values(stage);
    if (plan_.passes[static_cast<std::size_t>(stage)].softmax.empty()) {
      text += row_pass(stage);
    } else {
      text += softmax_pass(stage++);
    }
  }
  return text + end_of_rows();
}

// Results of a row.
std::string Printer::end_of_rows() const {
  std::string text;
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (i.level == Level::row && !in_epilogue(i)) text += "if (lead) " + store({}, p_.outputs[o], o);
  }
  for (const std::int32_t v : plan_.totals) {  // one that does not vary along the row counts once per row
    if (instr(instr(v).arg[0]).level == Level::full) continue;
    text += fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of(({}){});\n", total_number(v),
                        wide_text(instr(v).type), element_of_reduction(v));
  }
  return text;
}

// A round of a block's warps: each has a chunk of rows, and at its end all threads add the chunks, in order.
std::string Printer::sums_begin() const {
  std::string text = fmt::format("for (i64 base = group_first; base < group_end; base += {} * warps) {{\n", kChunkRows);
  text += fmt::format("const i64 chunk_first = base + {} * warp;\n", kChunkRows);
  text +=
      fmt::format("const i64 chunk_end = chunk_first + {0} < group_end ? chunk_first + {0} : group_end;\n", kChunkRows);
  for (const std::int32_t v : plan_.column_sums)
    text += fmt::format(
        "Pack<{0}, 8> chunk{1}[{2}];\n#pragma unroll\nfor (int slot = 0; slot < {2}; ++slot) chunk{1}[slot] = "
        "all_of({3});\n",
        element_type(v), v, plan_.slots, nothing(v));
  return text;
}
std::string Printer::sums_end() const {
  std::string text, sums;
  for (const std::int32_t v : plan_.column_sums) {
    const std::string op = reduction_text(instr(v).op), wide = wide_text(instr(v).type);
    text += fmt::format(
        "#pragma unroll\nfor (int slot = 0; slot < {0}; ++slot) write_own(kept_at + kept{1}, slot, chunk{1}[slot]);\n",
        plan_.slots, v);
    sums += fmt::format("  u64* const at{} = a.work + a.sums + ({} * a.groups + group) * a.columns + col;\n", v,
                        sum_number(v));
    sums += fmt::format("  {0} sum{1} = base == group_first ? {2}::nothing<{0}>() : from_bits(({0})0, *at{1});\n", wide,
                        v, op);
    sums += fmt::format(
        "  for (int c = 0; c < warps && base + {0} * c < group_end; ++c)\n"
        "    sum{1} = {2}::of(sum{1}, ({3})of_warp<{4}>(kept_at + kept{1}, c, col));\n  *at{1} = bits_of(sum{1});\n",
        kChunkRows, v, op, wide, element_type(v));
  }
  return text + "__syncthreads();\nfor (int col = threadIdx.x; col < columns; col += blockDim.x) {\n" + sums +
         "}\n__syncthreads();\n}\n";
}

// After the last row of a chunk: its thread's sum is continued in the wide type.
std::string Printer::chunk_end() const {
  std::string add = plan_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  for (const std::int32_t v : plan_.column_sums)
    add += fmt::format(
        "add_chunk<{}, {}>(a.work + a.sums + ({} * a.groups + group) * a.columns + leaf, "
        "read_own<{}>(kept_at + kept{}, slot), {}, row - group_first < {});\n",
        reduction_text(instr(v).op), wide_text(instr(v).type), sum_number(v), element_type(v), v, live({}),
        kLongChunkRows);
  const std::string ends = fmt::format("(row - group_first) % {0} == {0} - 1 || row + 1 == group_end", kLongChunkRows);
  const std::string leaves = over_leaves({{[&](const Scope&) { return add; }, "", 1}}, Leaves::one_by_one);
  return fmt::format("if ({}) {{\n", ends) + indented(plan_.long_row ? over_groups_of_segments(leaves) : leaves, "  ") +
         "}\n";
}

// `first_row` goes from one group of rows to the next, and `row` is this thread's.
std::string Printer::row_step() const {
  if (plan_.mapping == Mapping::row_groups) return "1";
  return fmt::format("(i64)gridDim.x * {}", plan_.mapping == Mapping::lanes_per_row ? kThreads / plan_.lanes : 1);
}
std::string Printer::row_end() const {
  return plan_.chunk_warps > 0 ? "chunk_end" : plan_.mapping == Mapping::row_groups ? "group_end" : "a.rows";
}

Printer::Kernel Printer::rows_kernel() const {
  const bool lanes = plan_.mapping == Mapping::lanes_per_row, grouped = plan_.mapping == Mapping::row_groups;
  const bool staged = !plan_.staged.empty(), chunked = plan_.chunk_warps > 0;
  // Row values are loaded while waiting for the row itself.
  const std::string given = scalars({}, true), of_row = row_values(0), body = row_body();

  std::string text;
  const std::int64_t parts = plan_.part_reductions;
  if (plan_.launch.has_dynamic_shared) text += "DYNAMIC_SHARED(smem);\n";
  if (plan_.parts_behind_row) {
    text += fmt::format("u64 (*const parts)[{0}][{1}] = (u64 (*)[{0}][{1}])(smem + {2});\n", parts, plan_.parts_room,
                        number("parts_at", plan_.parts_at));
  } else if (parts > 0) {
    text += fmt::format("__shared__ u64 parts[2][{}][{}];\n", parts, plan_.parts_room);
  }
  if (parts > 0) text += "int turn = 0;\n";
  if (staged) {
    const std::int64_t warps = plan_.launch.threads / 32;
    const std::string warp = fmt::format("smem + (threadIdx.x >> 5) * (int){} + (threadIdx.x & 31) * 16",
                                         number("warp_bytes", plan_.row_bytes / warps));
    if (!plan_.skewed) text += fmt::format("char* const mine = {};\n", warp);
    std::int64_t offset = 0;
    for (const std::int32_t o : plan_.staged) {
      if (!plan_.skewed) break;
      const std::string place = fmt::format("mine{}", o);
      text += fmt::format("char* const {} = {} + (int){};\n", place, warp, number(place, offset));
      offset += plan_.slots * 512 * chunks_of(p_.operands[at(o)].dtype) + 16 * ((plan_.slots + kLeaves - 1) / kLeaves);
    }
  }
  if (staged && !plan_.all_staged())
    text += plan_.rest_in_registers()
                ? fmt::format("const int unstaged = (int){};\n", number("unstaged", plan_.slots - plan_.staged_slots))
                : fmt::format("const int staged_slots = (int){};\n", number("staged_slots", plan_.staged_slots));
  text += given;
  text += fmt::format("const {0} columns = ({0})a.columns, segments = ({0}){1};\n", plan_.small ? "int" : "i64",
                      number("segments", plan_.segments));
  if (lanes) {
    text += fmt::format("const int lane = threadIdx.x & {}, team = (threadIdx.x & 31) / {};\n", plan_.lanes - 1,
                        plan_.lanes);
    text += "const bool lead = lane == 0;\n";
  } else {
    text += "const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;\n";
    text += fmt::format("const bool lead = {} == 0;\n", chunked ? "lane" : "threadIdx.x");
  }
  std::string begin;
  if (grouped) {
    text += "for (i64 group = blockIdx.x; group < a.groups; group += gridDim.x) {\n";
    text += "const i64 group_first = group * a.group_rows;\n";
    begin = "group_first";
    text += "const i64 group_end = group_first + a.group_rows < a.rows ? group_first + a.group_rows : a.rows;\n";
    text += plan_.kept_on_chip ? "char* const kept_at = smem + a.kept;\n"
                               : "char* const kept_at = (char*)(a.work + a.kept) + blockIdx.x * a.kept_bytes;\n";
    std::int64_t offset = 0;
    for (const std::int32_t v : plan_.column_sums) {
      const std::string kept = fmt::format("kept{}", v);
      text += fmt::format("const i64 {} = {};\n", kept, number(kept, offset));
      offset += plan_.slots * kLeaf * plan_.launch.threads * (instr(v).type == RegType::f32 ? 4 : 8);
    }
    if (chunked) {
      text += sums_begin();
      begin = "chunk_first";
    }
  } else {
    begin = fmt::format("(i64)blockIdx.x * {}", lanes ? kThreads / plan_.lanes : 1);
    if (lanes) begin += fmt::format(" + (threadIdx.x >> 5) * {}", 32 / plan_.lanes);
  }
  std::string loop;
  if (staged) {
    text += fmt::format("if ({} < {}) {{\n", begin, row_end()) +
            indented(row_of("(" + begin + ")") + copy_row(), "  ") + "}\ncopies_begun();\n";
  }
  loop += row_of("first_row");
  loop += coordinates(plan_.rows) + of_row;
  const bool direct = plan_.rest_in_registers();
  if (staged && !direct) loop += plan_.skewed ? "wait_for_copies<0>();\n__syncwarp();\n" : "wait_for_copies<0>();\n";
  for (const std::int32_t operand : plan_.staged) {
    if (!plan_.skewed) break;
    const Operand& o = p_.operands[at(operand)];
    const std::string who = fmt::format("x{}", operand);
    loop += fmt::format("const u32 {}_skew = (u32)(u64)({} + ({})) & 15;\n", who, pointer(o, operand),
                        address({}, o.strides, who, &plan_.rows));
  }
  for (const std::int32_t operand : plan_.staged) {
    if (plan_.first_round())
      loop += fmt::format("Pack<{}, 8> x{}_row[{}];\n", memory_text(p_.operands[at(operand)].dtype), operand,
                          plan_.held_leaves);
  }
  if (direct) loop += take_row();
  if (grouped && !chunked) {
    loop += fmt::format("const bool chunk_begins = (row - group_first) % {0} == 0;\n", kLongChunkRows);
  }
  loop += body;
  if (grouped && !chunked) loop += chunk_end();
  if (staged && (!plan_.holds_row() || plan_.slots > kLeaves)) loop += "copies_begun();\n";
  text += fmt::format("for (i64 first_row = {}; first_row < {}; first_row += {}) {{\n", begin, row_end(), row_step()) +
          indented(loop, "  ") + "}\n";
  if (chunked) text += sums_end();
  if (grouped) text += "}\n";
  return {"sweep", bounds(), indented(counter_begins() + text, "  ")};
}

}  // namespace ebb::cuda
