// The leaves of a row: which thread has them, where they are between passes, and how the next row comes.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

constexpr double kMostInstructions = 1024;           // of leaves that are written out one after the other
constexpr std::int64_t kMostHeld = 8;                // chunks of 16 bytes of a row in a thread's registers
constexpr std::int64_t kMostRead = 24;               // and of all that is read, weights included
constexpr std::int64_t kFewRest = 4, kMostRest = 8;  // chunks that have no room on chip

// What passes leave on chip for later ones. Of a row that is not there as a whole every pass makes everything again.
void Printer::choose_kept() {
  if (layout_.staged.empty() || !all_staged() || !layout_.vectors) return;
  PassRoots passes;
  for (int stage = 0; stage < p_.stages; ++stage) passes.push_back(roots_of(pass_of(stage)));
  keeping_ = keep_values(p_, layout_.staged, passes, coarse_);
}

// Whether a thread's part of the row fits in registers, beside what computes it, or a first round of it. Its room on
// chip is free as soon as the first pass is over, so that the next row is on its way during all others. What has no
// room on chip is of that round, and comes from memory (or the cache it was sent to) once.
bool Printer::may_hold() const {
  const std::int64_t slots = std::min<std::int64_t>(kLeaves, layout_.slots);
  if (layout_.slots - layout_.staged_slots > slots || !layout_.vectors || layout_.long_row || layout_.chunk_warps > 0)
    return false;
  std::int64_t read = 0;  // chunks of what is on chip or not: all leaves may be on their way at once
  for (const Operand& o : p_.operands) {
    if (o.kind == Operand::Kind::memory && o.level == Level::full) read += chunks_of(o.dtype);
  }
  if (staged_chunk_count() * slots > kMostHeld || read * slots > kMostRead) return false;
  for (const auto& kept : keeping_.before) {
    if (!kept.empty()) return false;
  }
  for (int stage = 0; stage < p_.stages; ++stage) {
    if (instructions(pass_of(stage)) * kLeaf * static_cast<double>(slots) > 2 * kMostInstructions) return false;
  }
  return !layout_.staged.empty();
}

// Otherwise what has no room on chip may, and nothing else.
bool Printer::may_hold_rest() const {
  return !layout_.staged.empty() && !all_staged() && layout_.vectors && !layout_.long_row &&
         staged_chunk_count() * (layout_.slots - layout_.staged_slots) <= kMostRest;
}

std::int64_t Printer::held_leaves() const {
  if (held_) return std::min<std::int64_t>(layout_.slots, kLeaves);
  const std::int64_t chunks = staged_chunk_count(), rest = chunks * (layout_.slots - layout_.staged_slots);
  return (rest <= kFewRest ? kFewRest : kMostRest) / chunks;
}

std::string Printer::body_of(const std::function<std::string()>& make_body, bool whole, bool held) {
  whole_segment_ = whole;
  in_registers_ = held;
  std::string text = make_body();
  whole_segment_ = in_registers_ = false;
  return text;
}

// Leaves whose code is written out one after the other, so that their accesses overlap: not more than the instruction
// cache holds.
int Printer::written_out(double instructions) const {
  int leaves = kLeaves;
  while (leaves > 1 && leaves * kLeaf * instructions > kMostInstructions) leaves /= 2;
  return leaves;
}

// Of a row that a warp has, or a part of one.
std::string Printer::over_short_row(const std::function<std::string()>& make_body, double instructions) {
  if (layout_.lanes < 32)
    return "{\n  const int slot = 0, leaf = lane * 8;\n  if (leaf < columns) {\n" +
           indented(body_of(make_body, false, held_), "    ") + "  }\n}\n";
  const std::string of_slot = fmt::format("  const int leaf = slot * {} + lane * {};\n", 32 * kLeaf, kLeaf);
  const int unroll = written_out(instructions);
  if (layout_.chunk_warps == 0 && unroll < kLeaves && !held_)
    return fmt::format("#pragma unroll {}\nfor (int slot = 0; slot < {}; ++slot) {{\n", unroll, kLeaves) + of_slot +
           "  if (leaf >= columns) break;\n" + indented(make_body(), "  ") + "}\n";
  // All of a lane's leaves are written out, so that what they have stays in registers; only the last may be missing.
  const std::int64_t whole = p_.columns() / (32 * kLeaf);
  std::string text;
  if (whole > 0)
    text = fmt::format("#pragma unroll\nfor (int slot = 0; slot < {}; ++slot) {{\n", whole) + of_slot +
           indented(body_of(make_body, true, held_), "  ") + "}\n";
  if (whole < layout_.slots)
    text += fmt::format("{{\n  const int slot = {};\n", whole) + of_slot + "  if (leaf < columns) {\n" +
            indented(body_of(make_body, false, held_), "    ") + "  }\n}\n";
  return text;
}

// Every leaf of the row that is this thread's, or those of a first round that are in registers: `leaf`, and `slot`, its
// number among them. Works follow each other within a segment.
std::string Printer::over_leaves(const std::vector<LeafWork>& works, bool held_only) {
  if (layout_.row_in_warp()) {
    std::string text;
    for (const LeafWork& work : works) text += over_short_row(work.body, work.instructions) + work.end;
    return text;
  }
  const std::string index = layout_.small ? "int" : "i64";
  const auto leaves = [&](int unroll, const std::string& check, const std::string& of_leaf) {
    std::string loop = fmt::format("#pragma unroll {}\nfor (int k = 0; k < {}; ++k) {{\n", unroll, kLeaves);
    loop += fmt::format("  const {} leaf = segment * {} + k * {} + lane * {};\n", index, kSegment, 32 * kLeaf, kLeaf);
    loop += fmt::format("  const int slot = (int)round * {} + k;\n", kLeaves) + check;
    return loop + indented(of_leaf, "  ") + "}\n";
  };
  std::string text;
  const bool more_rounds = layout_.slots > kLeaves, first_round = held_ || holds_rest_;
  if (first_round) {  // numbers of registers are no numbers of a program, so every leaf has its code
    const bool whole = more_rounds || p_.columns() % kSegment == 0;
    std::string held = "const int segment = warp, round = 0;\n";
    for (const LeafWork& work : works) {
      std::string of_leaf = body_of(work.body, whole, true);
      if (!whole) of_leaf = "if (leaf < columns) {\n" + indented(of_leaf, "  ") + "}\n";
      held += leaves(kLeaves, "", of_leaf) + work.end;
    }
    text = "{\n" + indented(held, "  ") + "}\n";
    if (held_only || !more_rounds) return text;
  }
  const std::string check = "  if (leaf >= columns) break;\n";
  std::string in;
  for (const LeafWork& work : works) {
    const int unroll = std::min(written_out(work.instructions), first_round ? 2 : kLeaves);
    if (unroll == 1) {
      in += leaves(1, check, work.body());
    } else {  // where no leaf can be missing nothing stands between the accesses of one and the next
      in += fmt::format("if ((segment + 1) * {} <= columns) {{\n", kSegment) +
            indented(leaves(unroll, "", body_of(work.body, true, false)), "  ") + "} else {\n" +
            indented(leaves(1, check, work.body()), "  ") + "}\n";
    }
    in += work.end;
  }
  const char* const first = layout_.long_row ? "first_segment + warp" : first_round ? "warp + warps" : "warp";
  return text +
         fmt::format("for ({} segment = {}, round = {}; segment < {}; segment += warps, ++round) {{\n", index, first,
                     first_round ? 1 : 0, layout_.long_row ? "end_segment" : "segments") +
         indented(in, "  ") + "}\n";
}

// The leaf on its way into the thread's memory, from where pointers with this ending say the row begins.
std::string Printer::copy_staged(const std::string& ending) {
  std::string text;
  for (const std::int32_t operand : layout_.staged) {
    const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
    const std::string who = fmt::format("x{}", operand);
    const std::string from = fmt::format("{}{} + ({})", who, ending, address(o.strides, who, &layout_.columns));
    const std::string copy =
        fmt::format("copy_chunks<{}, {}{}>(mine, {}, {}, {}, {});\n", memory_text(o.dtype), staged_chunk_count(),
                    staged_chunks(operand), chip_slot(), from, aligned(o.strides, o.dtype, who), live());
    const char* const has_room = rest_in_registers() ? "slot >= unstaged" : "slot < staged_slots";
    text += all_staged() ? copy : fmt::format("if ({}) {}else prefetch({});\n", has_room, copy, from);
  }
  return text;
}

std::string Printer::copy_leaf(const std::string& ending) {
  const std::string live = layout_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  return live + "const i64 col = leaf;\n" + coordinates(layout_.columns) + copy_staged(ending);
}

// A leaf from chip into registers.
std::string Printer::take_leaf() {
  std::string text;
  for (const std::int32_t o : layout_.staged)
    text += fmt::format("x{}_row[slot] = read_chunks<{}, {}{}>(mine, {});\n", o,
                        memory_text(p_.operands[static_cast<std::size_t>(o)].dtype), staged_chunk_count(),
                        staged_chunks(o), chip_slot());
  return text;
}

// The row into registers where the first leaves are not on chip, or those leaves alone: they are waited for last.
std::string Printer::take_row() {
  std::string direct;
  for (const std::int32_t operand : layout_.staged) {
    const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
    const std::string who = fmt::format("x{}", operand);
    direct += fmt::format("x{}_row[k] = load_pack<8>({} + ({}), {}, {});\n", operand, pointer(o, operand),
                          address(o.strides, who), aligned(o.strides, o.dtype, who), live());
  }
  const std::string live = layout_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  direct = fmt::format("if (k < {} && slot < unstaged) {{\n", held_leaves()) +
           indented(live + "const i64 col = leaf;\n" + coordinates(layout_.columns) + direct, "  ") + "}\n";
  std::string from_chip = "if (slot >= unstaged) {\n" + indented(take_leaf(), "  ") + "}\n";
  std::string text = over_leaves({{[&] { return direct; }, "", 0}}, true) + "wait_for_copies<0>();\n";
  if (held_) text += over_leaves({{[&] { return from_chip; }, "", 0}}, true);
  return text;
}

// Where the rows of staged operands begin that `row` means.
std::string Printer::rows_begin(const std::string& ending) {
  std::string text = coordinates(layout_.rows);
  for (const std::int32_t operand : layout_.staged) {
    const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
    const std::string who = fmt::format("x{}", operand);
    text +=
        fmt::format("{}{} = {} + ({});\n", who, ending, pointer(o, operand), address(o.strides, who, &layout_.rows));
  }
  return text;
}

// Row `row` on its way onto the chip, each leaf by the thread that will read it.
std::string Printer::copy_row() {
  std::string body = copy_leaf("_first");
  std::string text;
  for (const std::int32_t operand : layout_.staged)
    text += fmt::format("const {}* x{}_first;\n", memory_text(p_.operands[static_cast<std::size_t>(operand)].dtype),
                        operand);
  return text + rows_begin("_first") + over_leaves({{[&] { return body; }, "", kMostInstructions}});
}

std::string Printer::row_of(const std::string& first) const {
  const bool teams = layout_.mapping == Mapping::lanes_per_row && layout_.lanes < 32;
  return teams ? fmt::format("const i64 row = {0} + team < a.rows ? {0} + team : a.rows - 1;\n", first)
               : fmt::format("const i64 row = {};\n", first);
}

// Before the last pass over a row: is there another, and where does it begin?
std::string Printer::next_row() {
  const std::string next = fmt::format("(first_row + {})", row_step_);
  std::string text = fmt::format("const bool more = {} < {};\n", next, row_end_);
  for (const std::int32_t operand : layout_.staged)
    text += fmt::format("const {}* x{}_next;\n", memory_text(p_.operands[static_cast<std::size_t>(operand)].dtype),
                        operand);
  return text + "{\n" + indented(row_of(next) + rows_begin("_next"), "  ") + "}\n";
}

std::string Printer::send_for_next_row() {
  const std::string begin = next_row();
  std::string body = copy_leaf("_next");
  return begin + "if (more) {\n" + indented(over_leaves({{[&] { return body; }, "", 0}}, true), "  ") +
         "}\ncopies_begun();\n";
}

}  // namespace ebb::cuda
