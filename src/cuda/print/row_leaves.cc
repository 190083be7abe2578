// SPDX-License-Identifier: MIT
// The leaves of a row: which thread has them, where they are between passes, and how the next row is fetched.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

// For a row that a warp has, or a part of one.
std::string Printer::over_short_row(const LeafBody& body, int unroll) const {
  const bool held = plan_.holds_row();
  if (plan_.lanes < 32)
    return "{\n  const int slot = 0, leaf = lane * 8;\n  if (leaf < columns) {\n" +
           indented(body({.in_registers = held}), "    ") + "  }\n}\n";
  const std::string of_slot = fmt::format("  const int leaf = slot * {} + lane * {};\n", 32 * kLeaf, kLeaf);
  if (plan_.chunk_warps == 0 && unroll < kLeaves && !held)
    return fmt::format("#pragma unroll {}\nfor (int slot = 0; slot < {}; ++slot) {{\n", unroll, kLeaves) + of_slot +
           "  if (leaf >= columns) break;\n" + indented(body({}), "  ") + "}\n";
  // All of a lane's leaves are unrolled, so that their contents stay in registers; only the last may be missing.
  const std::int64_t whole = p_.columns() / (32 * kLeaf);
  std::string text;
  if (whole > 0)
    text = fmt::format("#pragma unroll\nfor (int slot = 0; slot < {}; ++slot) {{\n", whole) + of_slot +
           indented(body({.whole = true, .in_registers = held}), "  ") + "}\n";
  if (whole < plan_.slots)
    text += fmt::format("{{\n  const int slot = {};\n", whole) + of_slot + "  if (leaf < columns) {\n" +
            indented(body({.in_registers = held}), "    ") + "  }\n}\n";
  return text;
}

// Every leaf of the row that is this thread's, or those of a first round that are in registers: `leaf`, and `slot`, its
// number among them. Works follow each other within a segment.
std::string Printer::over_leaves(const std::vector<LeafWork>& works, Leaves which) const {
  if (plan_.row_in_warp()) {
    std::string text;
    for (const LeafWork& work : works) text += over_short_row(work.body, work.unroll) + work.end;
    return text;
  }
  const std::string index = plan_.small ? "int" : "i64";
  const std::string of_k =
      fmt::format("  const {} leaf = segment * {} + k * {} + lane * {};\n", index, kSegment, 32 * kLeaf, kLeaf) +
      fmt::format("  const int slot = (int)round * {} + k;\n", kLeaves);
  const auto leaves = [&](const std::string& count, int unroll, const std::string& check, const std::string& of_leaf) {
    return fmt::format("#pragma unroll {}\nfor (int k = 0; k < {}; ++k) {{\n", unroll, count) + of_k + check +
           indented(of_leaf, "  ") + "}\n";
  };
  // A segment without branches between the accesses of one leaf and the next: each branch would wait for its own loads.
  // In an incomplete last segment only the leaf after those that all lanes have may be missing. Where leaves are in
  // registers, their number is part of the text.
  const auto segment = [&](const LeafWork& work, bool held) {
    const Scope of_all{.whole = true, .in_registers = held};
    const auto rest = static_cast<int>(p_.columns() % kSegment), count = rest / (32 * kLeaf);
    const std::string all = leaves(std::to_string(kLeaves), work.unroll, "", work.body(of_all));
    if (held && (rest == 0 || plan_.slots > kLeaves)) return all;
    std::string last;
    if (!held)
      last = fmt::format("const int whole_leaves = (int)((columns - segment * {}) / {});\n", kSegment, 32 * kLeaf);
    if (!held || count > 0)
      last += leaves(held ? std::to_string(count) : "whole_leaves", held ? count : std::min(work.unroll, kLeaves / 2),
                     "", work.body(of_all));
    if (!held || rest % (32 * kLeaf) != 0)
      last += fmt::format("{{\n  const int k = {};\n", held ? std::to_string(count) : "whole_leaves") + of_k +
              "  if (leaf < columns) {\n" + indented(work.body({.in_registers = held}), "    ") + "  }\n}\n";
    if (held && p_.columns() < kSegment) return last;
    return fmt::format("if ((segment + 1) * {} <= columns) {{\n", kSegment) + indented(all, "  ") + "} else {\n" +
           indented(last, "  ") + "}\n";
  };
  std::string text;
  const bool more_rounds = plan_.slots > kLeaves, first_round = plan_.first_round() && which != Leaves::one_by_one;
  if (first_round) {  // register arrays cannot be indexed dynamically, so every leaf has its code
    std::string held = "const int segment = warp, round = 0;\n";
    for (const LeafWork& work : works) held += segment({work.body, "", kLeaves}, true) + work.end;
    text = "{\n" + indented(held, "  ") + "}\n";
    if (which == Leaves::held || !more_rounds) return text;
  }
  std::string in;
  for (const LeafWork& work : works) {
    in += work.unroll > 1 ? segment(work, false)
                          : leaves(std::to_string(kLeaves), 1, "  if (leaf >= columns) break;\n", work.body({}));
    in += work.end;
  }
  const char* const first = plan_.long_row ? "first_segment + warp" : first_round ? "warp + warps" : "warp";
  const std::string round = plan_.long_row ? fmt::format("first_segment / {0} * (({0} - 1 + warps) / warps)", kGroup)
                                           : std::to_string(first_round ? 1 : 0);
  return text +
         fmt::format("for ({} segment = {}, round = {}; segment < {}; segment += warps, ++round) {{\n", index, first,
                     round, plan_.long_row ? "end_segment" : "segments") +
         indented(in, "  ") + "}\n";
}

// Copies the leaf to the thread's memory, from the row that starts at the pointers with this ending.
std::string Printer::copy_staged(const Scope& scope, const std::string& ending) const {
  std::string text;
  for (const std::int32_t operand : plan_.staged) {
    const Operand& o = p_.operands[at(operand)];
    const std::string who = fmt::format("x{}", operand);
    const std::string from = fmt::format("{}{} + ({})", who, ending, address(scope, o.strides, who, &plan_.columns));
    if (plan_.skewed) {
      text +=
          fmt::format("copy_skewed(mine{}, slot, {}, {}, (lane == 31 && (slot & {}) == {}) || leaf + {} >= columns);\n",
                      operand, from, live(scope), kLeaves - 1, kLeaves - 1, kLeaf);
      continue;
    }
    const std::string copy =
        fmt::format("copy_chunks<{}, {}{}>(mine, {}, {}, {}, {});\n", memory_text(o.dtype), plan_.staged_chunks,
                    staged_chunks(operand), chip_slot(), from, aligned(o.strides, o.dtype, who), live(scope));
    const char* const has_room = plan_.rest_in_registers() ? "slot >= unstaged" : "slot < staged_slots";
    text += plan_.all_staged() ? copy : fmt::format("if ({}) {}else prefetch({});\n", has_room, copy, from);
  }
  return text;
}

// The next row's leaf replaces one that is not read again.
std::string Printer::copy_next(const Scope& scope) const {
  return "if (more) {\n" + indented(copy_staged(scope, "_next"), "  ") + "}\n";
}

std::string Printer::copy_leaf(const std::string& ending) const {
  const std::string live = plan_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  return live + "const i64 col = leaf;\n" + coordinates(plan_.columns) + copy_staged({}, ending);
}

// Moves a leaf from shared memory into registers.
std::string Printer::take_leaf(const Scope& scope) const {
  std::string text;
  for (const std::int32_t o : plan_.staged) text += fmt::format("x{}_row[slot] = {};\n", o, read_staged(scope, o));
  return text;
}

std::string Printer::read_staged(const Scope& scope, std::int32_t operand) const {
  const std::string type = memory_text(p_.operands[at(operand)].dtype);
  if (plan_.skewed) return fmt::format("read_skewed<{0}>(mine{1}, slot, x{1}_skew, {2})", type, operand, live(scope));
  return fmt::format("read_chunks<{}, {}{}>(mine, {})", type, plan_.staged_chunks, staged_chunks(operand), chip_slot());
}

// Moves the row into registers if the first leaves are not on chip, or only those leaves: they are waited for last.
std::string Printer::take_row() const {
  std::string direct;
  for (const std::int32_t operand : plan_.staged) {
    const Operand& o = p_.operands[at(operand)];
    const std::string who = fmt::format("x{}", operand);
    direct += fmt::format("x{}_row[k] = load_pack<8>({} + ({}), {}, {});\n", operand, pointer(o, operand),
                          address({}, o.strides, who), aligned(o.strides, o.dtype, who), live({}));
  }
  const std::string live = plan_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  direct = fmt::format("if (k < {} && slot < unstaged) {{\n", plan_.held_leaves) +
           indented(live + "const i64 col = leaf;\n" + coordinates(plan_.columns) + direct, "  ") + "}\n";
  std::string from_chip = "if (slot >= unstaged) {\n" + indented(take_leaf({}), "  ") + "}\n";
  std::string text =
      over_leaves({{[&](const Scope&) { return direct; }, ""}}, Leaves::held) + "wait_for_copies<0>();\n";
  if (plan_.holds_row()) text += over_leaves({{[&](const Scope&) { return from_chip; }, ""}}, Leaves::held);
  return text;
}

// Where the rows of staged operands that `row` means begin.
std::string Printer::rows_begin(const std::string& ending) const {
  std::string text = coordinates(plan_.rows);
  for (const std::int32_t operand : plan_.staged) {
    const Operand& o = p_.operands[at(operand)];
    const std::string who = fmt::format("x{}", operand);
    text +=
        fmt::format("{}{} = {} + ({});\n", who, ending, pointer(o, operand), address({}, o.strides, who, &plan_.rows));
  }
  return text;
}

// Copies row `row` onto the chip, each leaf by the thread that will read it.
std::string Printer::copy_row() const {
  std::string body = copy_leaf("_first");
  std::string text;
  for (const std::int32_t operand : plan_.staged)
    text += fmt::format("const {}* x{}_first;\n", memory_text(p_.operands[at(operand)].dtype), operand);
  return text + rows_begin("_first") + over_leaves({{[&](const Scope&) { return body; }, "", 1}});
}

std::string Printer::row_of(const std::string& first) const {
  const bool teams = plan_.mapping == Mapping::lanes_per_row && plan_.lanes < 32;
  return teams ? fmt::format("const i64 row = {0} + team < a.rows ? {0} + team : a.rows - 1;\n", first)
               : fmt::format("const i64 row = {};\n", first);
}

// Before the last pass over a row: is there another, and where does it begin?
std::string Printer::next_row() const {
  const std::string next = fmt::format("(first_row + {})", row_step());
  std::string text = fmt::format("const bool more = {} < {};\n", next, row_end());
  for (const std::int32_t operand : plan_.staged)
    text += fmt::format("const {}* x{}_next;\n", memory_text(p_.operands[at(operand)].dtype), operand);
  return text + "{\n" + indented(row_of(next) + rows_begin("_next"), "  ") + "}\n";
}

std::string Printer::send_for_next_row() const {
  // Neighbours may still be reading what is overwritten.
  const std::string begin = (plan_.skewed ? "__syncwarp();\n" : "") + next_row();
  std::string body = copy_leaf("_next");
  return begin + "if (more) {\n" +
         indented(over_leaves({{[&](const Scope&) { return body; }, ""}}, Leaves::held), "  ") + "}\ncopies_begun();\n";
}

}  // namespace ebb::cuda
