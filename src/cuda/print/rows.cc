// Sweeps with rows: stages of passes over each row.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

constexpr double kMostInstructions = 1024;  // of leaves that are written out one after the other
constexpr std::int64_t kMostHeld = 8;       // chunks of 16 bytes of a row in a thread's registers
constexpr std::int64_t kMostRead = 12;      // and of all that is read beside it

Printer::Pass Printer::pass_of(int stage) const {
  Pass pass;
  pass.needed.resize(static_cast<std::size_t>(n_));
  const auto belongs = [&](std::int32_t v) { return instr(v).level == Level::full && instr(v).stage == stage; };
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.kind == Kind::reduce && i.stage == stage) pass.reductions.push_back(v);
    if (i.kind == Kind::total && belongs(i.arg[0])) pass.reductions.push_back(v);
    if (i.kind == Kind::columns && std::max<int>(0, instr(i.arg[0]).stage) == stage) pass.sums.push_back(v);
    if (is_check(v) && belongs(v)) pass.checks.push_back(v);
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    if (belongs(p_.outputs[o].value)) pass.outputs.push_back(o);
  }
  const auto which = static_cast<std::size_t>(stage);
  if (which < keeping_.before.size()) pass.found = keeping_.before[which];
  if (which + 1 < keeping_.before.size()) {
    for (const KeptValue& k : keeping_.before[which + 1]) {
      if (std::none_of(pass.found.begin(), pass.found.end(), [&](const KeptValue& f) { return f.value == k.value; }))
        pass.keeps.push_back(k);
    }
  }
  for (const std::int32_t v : roots_of(pass)) need(v, pass.needed, pass.found);
  for (const KeptValue& k : pass.keeps) need(k.value, pass.needed, pass.found);
  pass.on_chip = true;
  pass.takes_row = held_ && stage == first_pass_;
  return pass;
}

// The values of the line that a pass is for.
std::vector<std::int32_t> Printer::roots_of(const Pass& pass) const {
  std::vector<std::int32_t> roots;
  for (const std::int32_t v : pass.reductions) roots.push_back(instr(v).arg[0]);
  for (const std::int32_t v : pass.sums) roots.push_back(instr(v).arg[0]);
  for (const std::int32_t v : pass.checks) roots.insert(roots.end(), {v, instr(v).arg[1]});
  for (const std::size_t o : pass.outputs) roots.push_back(p_.outputs[o].value);
  return roots;
}

// What passes leave on chip for later ones. Of a row that is not there as a whole every pass makes everything again.
void Printer::choose_kept() {
  if (layout_.staged.empty() || !all_staged() || !layout_.vectors) return;
  PassRoots passes;
  for (int stage = 0; stage < p_.stages; ++stage) passes.push_back(roots_of(pass_of(stage)));
  keeping_ = keep_values(p_, layout_.staged, passes, coarse_);
}

// Whether a thread's part of the row fits in registers, beside what computes it. Its room on chip is free as soon as
// the first pass is over, so that the next row is on its way during all others.
bool Printer::may_hold() const {
  const bool one_round = layout_.slots <= kLeaves && !layout_.long_row && layout_.chunk_warps == 0;
  if (layout_.staged.empty() || !all_staged() || !layout_.vectors || !one_round) return false;
  std::int64_t read = 0;  // chunks of what is on chip or not: all leaves may be on their way at once
  for (const Operand& o : p_.operands) {
    if (o.kind == Operand::Kind::memory && o.level == Level::full) read += chunks_of(o.dtype);
  }
  if (staged_chunk_count() * layout_.slots > kMostHeld || read * layout_.slots > kMostRead) return false;
  for (const auto& kept : keeping_.before) {
    if (!kept.empty()) return false;
  }
  for (int stage = 0; stage < p_.stages; ++stage) {
    if (instructions(pass_of(stage)) * kLeaf * static_cast<double>(layout_.slots) > 2 * kMostInstructions) return false;
  }
  return true;
}

// Every leaf of the row that is this thread's: `leaf`, and `slot`, its number among them.
std::string Printer::over_leaves(const std::function<std::string()>& make_body, const std::string& end_of_segment,
                                 double instructions) {
  // Leaves whose code is written out one after the other, so that their accesses overlap: not more than the instruction
  // cache holds.
  int unroll = kLeaves;
  while (unroll > 1 && unroll * kLeaf * instructions > kMostInstructions) unroll /= 2;
  const std::string body = make_body();
  const std::string index = layout_.small ? "int" : "i64";
  if (layout_.mapping == Mapping::lanes_per_row && layout_.lanes < 32) {
    return "{\n  const int slot = 0, leaf = lane * 8;\n  if (leaf < columns) {\n" + indented(body, "    ") +
           "  }\n}\n" + end_of_segment;
  }
  const auto of_slot = fmt::format("  const int leaf = slot * {} + lane * {};\n", 32 * kLeaf, kLeaf);
  if (layout_.row_in_warp() && (layout_.chunk_warps > 0 || unroll == kLeaves || held_)) {
    // All of a lane's leaves are written out, so that sums over rows stay in registers; only the last may be missing.
    const std::int64_t whole = p_.columns() / (32 * kLeaf);
    std::string text;
    if (whole > 0) {
      whole_segment_ = true;
      text = fmt::format("#pragma unroll\nfor (int slot = 0; slot < {}; ++slot) {{\n", whole) + of_slot +
             indented(make_body(), "  ") + "}\n";
      whole_segment_ = false;
    }
    if (whole < layout_.slots)
      text += fmt::format("{{\n  const int slot = {};\n", whole) + of_slot + "  if (leaf < columns) {\n" +
              indented(body, "    ") + "  }\n}\n";
    return text + end_of_segment;
  }
  if (layout_.row_in_warp())
    return fmt::format("#pragma unroll {}\nfor (int slot = 0; slot < {}; ++slot) {{\n", unroll, kLeaves) + of_slot +
           "  if (leaf >= columns) break;\n" + indented(body, "  ") + "}\n" + end_of_segment;
  std::string text =
      fmt::format("for ({} segment = {}warp, round = 0; segment < {}; segment += warps, ++round) {{\n", index,
                  layout_.long_row ? "first_segment + " : "", layout_.long_row ? "end_segment" : "segments");
  const auto leaves = [&](int written_out, const std::string& check, const std::string& of_leaf) {
    std::string loop = fmt::format("#pragma unroll {}\nfor (int k = 0; k < {}; ++k) {{\n", written_out, kLeaves);
    loop += fmt::format("  const {} leaf = segment * {} + k * {} + lane * {};\n", index, kSegment, 32 * kLeaf, kLeaf);
    loop += fmt::format("  const int slot = (int)round * {} + k;\n", kLeaves) + check;
    return loop + indented(of_leaf, "  ") + "}\n";
  };
  if (held_) {  // the warp has one segment, and numbers of registers are no numbers of the program
    const bool whole = p_.columns() % kSegment == 0;
    whole_segment_ = whole;
    const std::string of_leaf = make_body();
    whole_segment_ = false;
    return "{\n  const int segment = warp, round = 0;\n" +
           indented(leaves(kLeaves, "", whole ? of_leaf : "if (leaf < columns) {\n" + indented(of_leaf, "  ") + "}\n"),
                    "  ") +
           indented(end_of_segment, "  ") + "}\n";
  }
  const std::string check = "  if (leaf >= columns) break;\n";
  std::string in;
  if (unroll == 1) {
    in = leaves(1, check, body);
  } else {  // where no leaf can be missing nothing stands between the accesses of one and the next
    whole_segment_ = true;
    const std::string whole = make_body();
    whole_segment_ = false;
    in = fmt::format("if ((segment + 1) * {} <= columns) {{\n", kSegment) + indented(leaves(unroll, "", whole), "  ") +
         "} else {\n" + indented(leaves(1, check, body), "  ") + "}\n";
  }
  return text + indented(in + end_of_segment, "  ") + "}\n";
}

std::string Printer::row_pass(int stage) {
  const Pass pass = pass_of(stage);
  if (pass.empty()) return "";
  const bool by_owner = placed_by_owner(pass);
  const double cost = instructions(pass);
  std::string text, end;
  if (by_owner) text += placed_before(pass);
  const bool next = stage == last_pass_ && !layout_.staged.empty() && !held_;
  const std::string sent = pass.takes_row ? send_for_next_row() : "";
  if (next) text += next_row();
  const auto body = [&] {
    placing_ = !by_owner;
    std::string made = leaf(pass);
    placing_ = true;
    return next ? made + "if (more) {\n" + indented(copy_staged("_next"), "  ") + "}\n" : made;
  };
  for (const std::int32_t v : pass.reductions) {
    const std::int32_t halves = halves_of_maximum(v);
    const bool bf16 = halves >= 0 && p_.operands[static_cast<std::size_t>(halves)].dtype == DType::bf16;
    text += halves >= 0 ? fmt::format("MostOfHalves<{}> sum{};\n", bf16, v)
                        : fmt::format("Reduction<{}, {}, {}> sum{};\n", reduction_text(instr(v).op), element_type(v),
                                      wide_type(v), v);
  }
  const auto give = [&](std::int32_t v, const std::string& all) {
    if (instr(v).kind == Kind::reduce) return define(v, narrowed(v, all));
    return fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of({});\n", total_number(v), all);
  };
  if (layout_.row_in_warp()) {
    text += over_leaves(body, "", cost) + sent + (by_owner ? placed_after(pass) : "");
    for (const std::int32_t v : pass.reductions) {
      text += fmt::format("const {0} all{1} = sum{1}.segment<{2}>();\n", wide_type(v), v, layout_.lanes);
      text += give(v, fmt::format("all{}", v));
    }
    return text;
  }
  if (pass.reductions.empty() && !layout_.long_row)
    return text + over_leaves(body, "", cost) + sent + (by_owner ? placed_after(pass) : "");
  most_reductions_ = std::max(most_reductions_, pass.reductions.size());
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    end += fmt::format("const {0} total{1} = sum{1}.segment<32>();\n", wide_type(v), v);
    end += fmt::format("if (lane == 0) parts[turn][{}][segment{}] = bits_of(total{});\n", r,
                       layout_.long_row ? " - first_segment" : "", v);
  }
  const auto over = [&](std::size_t r, const std::string& count) {
    const std::int32_t v = pass.reductions[r];
    return fmt::format("over_segments<{}, {}>(parts[turn][{}], (int){})", reduction_text(instr(v).op), wide_type(v), r,
                       count);
  };
  if (!layout_.long_row) {
    text += over_leaves(body, end, cost) + sent + (by_owner ? placed_after(pass) : "") + "__syncthreads();\n";
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
      const std::int32_t v = pass.reductions[r];
      text += fmt::format("const {} all{} = {};\n", wide_type(v), v, over(r, "segments")) +
              give(v, fmt::format("all{}", v));
    }
    return text + "turn ^= 1;\n";
  }
  // More segments than a group has: one group after the other.
  for (const std::int32_t v : pass.reductions)
    text += fmt::format("{0} top{1} = {2}::nothing<{0}>();\n", wide_type(v), v, reduction_text(instr(v).op));
  std::string groups = fmt::format("const i64 end_segment = {0} - first_segment < {1} ? {0} : first_segment + {1};\n",
                                   number("segments", layout_.segments), kGroup);
  groups += over_leaves(body, end, cost);
  if (!pass.reductions.empty()) groups += "__syncthreads();\n";
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    groups += fmt::format("const {0} group{1} = {2};\n", wide_type(v), v, over(r, "(end_segment - first_segment)"));
    groups += fmt::format("if (lane == (first_segment / {0} & 31)) top{1} = {2}::of(top{1}, group{1});\n", kGroup, v,
                          reduction_text(instr(v).op));
  }
  if (!pass.reductions.empty()) groups += "turn ^= 1;\n";
  text += fmt::format("for (i64 first_segment = 0; first_segment < a.segments; first_segment += {}) {{\n", kGroup) +
          indented(groups, "  ") + "}\n";
  for (const std::int32_t v : pass.reductions) {
    text += fmt::format("const {} all{} = over_lanes<{}>(top{});\n", wide_type(v), v, reduction_text(instr(v).op), v) +
            give(v, fmt::format("all{}", v));
  }
  return text;
}

// Values one a row, of one stage, before its pass; those of reductions come with the pass.
std::string Printer::row_values(int stage) {
  std::string text;
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.kind == Kind::place && i.stage == stage) {
      text += check(v, "row", "lead && ");
      text += fmt::format("const {0} place{1} = (u64){2} < (u64)a.columns ? ({0}){2} : -1;\n",
                          layout_.small ? "int" : "i64", v, name(i.arg[1]));
    }
    if (i.level != Level::row || i.stage != stage || in_epilogue(i)) continue;
    if (i.kind == Kind::reduce) continue;
    if (i.kind == Kind::pick) {
      text += pick(v);
      continue;
    }
    text += define(v);
    if (is_check(v)) text += check(v, "row", "lead && ");
  }
  return text;
}

// The element at its column, made from its inputs by every thread of the row: they read the same address.
std::string Printer::pick(std::int32_t v) {
  const Instr& i = instr(v);
  std::vector<char> needed(static_cast<std::size_t>(n_));
  need(i.arg[0], needed);
  std::string text = check(v, "row", "lead && ");
  text += fmt::format("{} {} = 0;\n", type_text(i.type), name(v));
  text += fmt::format("if ((u64){} < (u64)a.columns) {{\n", name(i.arg[1]));
  text += fmt::format("  const i64 col = {};\n", name(i.arg[1]));
  text += indented(coordinates(layout_.columns), "  ");
  for (std::int32_t u = 0; u < n_; ++u) {
    if (needed[static_cast<std::size_t>(u)]) text += "  " + define(u);
  }
  return text + fmt::format("  {} = {};\n}}\n", name(v), name(i.arg[0]));
}

// What is placed in a row changes one element of its results. Where nothing is added up of it, all elements are made
// without it, and the thread that stored that element does so again: looking for it everywhere costs three instructions
// an element.
bool Printer::placed_by_owner(const Pass& pass) const {
  if (layout_.long_row || !layout_.vectors || pass.outputs.empty()) return false;
  const auto has_place = [&](const std::vector<char>& needed) {
    for (std::int32_t v = 0; v < n_; ++v) {
      if (needed[static_cast<std::size_t>(v)] && instr(v).kind == Kind::place) return true;
    }
    return false;
  };
  if (!has_place(pass.needed) || !pass.checks.empty()) return false;
  std::vector<char> added(static_cast<std::size_t>(n_));
  for (const std::int32_t v : pass.reductions) need(instr(v).arg[0], added);
  for (const std::int32_t v : pass.sums) need(instr(v).arg[0], added);
  for (const KeptValue& k : pass.keeps) need(k.value, added);
  return !has_place(added);
}

// The elements at the places, before the pass: it may store over what they are made of.
std::string Printer::placed_before(const Pass& pass) {
  std::string text;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[static_cast<std::size_t>(v)] || instr(v).kind != Kind::place) continue;
    std::vector<char> needed(static_cast<std::size_t>(n_));
    std::string give;
    for (const std::size_t o : pass.outputs) {
      const std::int32_t value = p_.outputs[o].value;
      need(value, needed);
      text += fmt::format("{} at_place{}_{} = 0;\n", type_text(instr(value).type), v, o);
      give += fmt::format("  at_place{}_{} = {};\n", v, o, name(value));
    }
    text += fmt::format("if (place{0} >= 0) {{\n  const i64 col = place{0};\n", v);
    text += indented(coordinates(layout_.columns), "  ");
    for (std::int32_t u = 0; u < n_; ++u) {
      if (needed[static_cast<std::size_t>(u)]) text += "  " + define(u);
    }
    text += give + "}\n";
  }
  return text;
}

std::string Printer::placed_after(const Pass& pass) {
  std::string text = "__syncwarp();\n";  // neighbours store for each other: see store_pack
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[static_cast<std::size_t>(v)] || instr(v).kind != Kind::place) continue;
    // Who has it: see over_leaves.
    const bool lanes = layout_.row_in_warp();
    std::string owner = fmt::format("(place{} / {}) % {} == lane", v, kLeaf, lanes ? layout_.lanes : 32);
    if (!lanes) owner += fmt::format(" && (place{} / {}) % warps == warp", v, kSegment);
    text += fmt::format("if (place{0} >= 0 && {1}) {{\n  const i64 col = place{0};\n", v, owner);
    text += indented(coordinates(layout_.columns), "  ");
    for (const std::size_t o : pass.outputs) {
      text += "  " + define(p_.outputs[o].value, fmt::format("at_place{}_{}", v, o));
      text += "  " + store(p_.outputs[o], o);
    }
    text += "}\n";
  }
  return text;
}

std::string Printer::row_body() {
  std::string text;
  for (int stage = 0; stage < p_.stages; ++stage) {
    text += fmt::format("// stage {}\n", stage);
    text += row_values(stage) + row_pass(stage);
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (i.level == Level::row && !in_epilogue(i)) text += "if (lead) " + store(p_.outputs[o], o);
  }
  for (const std::int32_t v : totals_) {  // one that does not vary along the row counts once a row
    if (instr(instr(v).arg[0]).level == Level::full) continue;
    text += fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of(({}){});\n", total_number(v),
                        wide_text(instr(v).type), element_of_reduction(v));
  }
  return text;
}

// The leaf on its way into the thread's memory, from where pointers with this ending say the row begins.
std::string Printer::copy_staged(const std::string& ending) {
  std::string text;
  for (const std::int32_t operand : layout_.staged) {
    const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
    const std::string who = fmt::format("x{}", operand);
    const std::string from = fmt::format("{}{} + ({})", who, ending, address(o.strides, who, &layout_.columns));
    const std::string copy =
        fmt::format("copy_chunks<{}, {}{}>(mine, slot, {}, {}, {});\n", memory_text(o.dtype), staged_chunk_count(),
                    staged_chunks(operand), from, aligned(o.strides, o.dtype, who), live());
    text += all_staged() ? copy : fmt::format("if (slot < staged_slots) {}else prefetch({});\n", copy, from);
  }
  return text;
}

std::string Printer::copy_leaf(const std::string& ending) {
  const std::string live = layout_.tails ? "const int live = columns - leaf < 8 ? (int)(columns - leaf) : 8;\n" : "";
  return live + "const i64 col = leaf;\n" + coordinates(layout_.columns) + copy_staged(ending);
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
  const std::string body = copy_leaf("_first");
  std::string text;
  for (const std::int32_t operand : layout_.staged)
    text += fmt::format("const {}* x{}_first;\n", memory_text(p_.operands[static_cast<std::size_t>(operand)].dtype),
                        operand);
  return text + rows_begin("_first") + over_leaves([&] { return body; }, "", kMostInstructions);
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
  const std::string begin = next_row(), body = copy_leaf("_next");
  return begin + "if (more) {\n" + indented(over_leaves([&] { return body; }, "", 0), "  ") + "}\ncopies_begun();\n";
}

// A round of a block's warps: each has a chunk of rows, and at its end all threads add the chunks, in order.
std::string Printer::sums_begin() const {
  std::string text = fmt::format("for (i64 base = group_first; base < group_end; base += {} * warps) {{\n", kChunkRows);
  text += fmt::format("const i64 chunk_first = base + {} * warp;\n", kChunkRows);
  text +=
      fmt::format("const i64 chunk_end = chunk_first + {0} < group_end ? chunk_first + {0} : group_end;\n", kChunkRows);
  for (const std::int32_t v : column_sums_)
    text += fmt::format(
        "Pack<{0}, 8> chunk{1}[{2}];\n#pragma unroll\nfor (int slot = 0; slot < {2}; ++slot) chunk{1}[slot] = "
        "all_of({3});\n",
        element_type(v), v, layout_.slots, nothing(v));
  return text;
}
std::string Printer::sums_end() const {
  std::string text, sums;
  for (const std::int32_t v : column_sums_) {
    const std::string op = reduction_text(instr(v).op), wide = wide_text(instr(v).type);
    text += fmt::format(
        "#pragma unroll\nfor (int slot = 0; slot < {0}; ++slot) write_own(kept_at + kept{1}, slot, chunk{1}[slot]);\n",
        layout_.slots, v);
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

std::string Printer::rows_kernel() {
  const bool lanes = layout_.mapping == Mapping::lanes_per_row, grouped = layout_.mapping == Mapping::row_groups;
  const bool chip = !layout_.staged.empty(), chunked = layout_.chunk_warps > 0;
  // Which rows: `first_row` goes from turn to turn, and `row` is this thread's.
  const int rows_of_block = lanes ? kThreads / layout_.lanes : 1;
  row_step_ = grouped ? "1" : fmt::format("(i64)gridDim.x * {}", rows_of_block);
  row_end_ = chunked ? "chunk_end" : grouped ? "group_end" : "a.rows";
  for (int stage = 0; stage < p_.stages; ++stage) {
    if (pass_of(stage).empty()) continue;
    if (first_pass_ < 0) first_pass_ = stage;
    last_pass_ = stage;
  }
  choose_kept();
  held_ = may_hold();
  const std::string given = scalars(true), body = row_body();

  std::string text;
  if (chip || (grouped && layout_.kept_on_chip)) text += "DYNAMIC_SHARED(chip);\n";
  if (!lanes && most_reductions_ > 0) {
    const std::int64_t room = layout_.long_row || layout_.segments > 128 ? kGroup : layout_.segments > 8 ? 128 : 8;
    text += fmt::format("__shared__ u64 parts[2][{}][{}];\nint turn = 0;\n", most_reductions_, room);
  }
  if (chip)
    text += fmt::format("char* const mine = chip + (threadIdx.x >> 5) * (int){} + (threadIdx.x & 31) * 16;\n",
                        number("warp_bytes", layout_.staged_slots * 512 * staged_chunk_count()));
  if (chip && !all_staged())
    text += fmt::format("const int staged_slots = (int){};\n", number("staged_slots", layout_.staged_slots));
  text += given;
  text += fmt::format("const {0} columns = ({0})a.columns, segments = ({0}){1};\n", layout_.small ? "int" : "i64",
                      number("segments", layout_.segments));
  if (lanes) {
    text += fmt::format("const int lane = threadIdx.x & {}, team = (threadIdx.x & 31) / {};\n", layout_.lanes - 1,
                        layout_.lanes);
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
    text += layout_.kept_on_chip ? "char* const kept_at = chip + a.kept;\n"
                                 : "char* const kept_at = (char*)(a.work + a.kept) + blockIdx.x * a.kept_bytes;\n";
    std::int64_t offset = 0;
    for (const std::int32_t v : column_sums_) {
      const std::string kept = fmt::format("kept{}", v);
      text += fmt::format("const i64 {} = {};\n", kept, number(kept, offset));
      offset += layout_.slots * kLeaf * layout_.threads * (instr(v).type == RegType::f32 ? 4 : 8);
    }
    if (chunked) {
      text += sums_begin();
      begin = "chunk_first";
    }
  } else {
    begin = fmt::format("(i64)blockIdx.x * {}", rows_of_block);
    if (lanes) begin += fmt::format(" + (threadIdx.x >> 5) * {}", 32 / layout_.lanes);
  }
  std::string loop;
  if (chip) {
    text += fmt::format("if ({} < {}) {{\n", begin, row_end_) + indented(row_of("(" + begin + ")") + copy_row(), "  ") +
            "}\ncopies_begun();\n";
  }
  loop += row_of("first_row");
  loop += coordinates(layout_.rows);
  if (chip) loop += "wait_for_copies<0>();\n";
  for (const std::int32_t operand : layout_.staged) {
    if (held_)
      loop +=
          fmt::format("Pack<{}, 8> x{}_row[{}];\n", memory_text(p_.operands[static_cast<std::size_t>(operand)].dtype),
                      operand, layout_.row_in_warp() ? layout_.slots : kLeaves);
  }
  if (grouped && !chunked) {
    loop += fmt::format("const bool chunk_begins = (row - group_first) % {0} == 0;\n", kChunkRows);
    loop += fmt::format("const bool chunk_ends = (row - group_first) % {0} == {0} - 1 || row + 1 == group_end;\n",
                        kChunkRows);
    loop += fmt::format("const bool group_begins = row - group_first < {};\n", kChunkRows);
  }
  loop += body;
  if (chip && !held_) loop += "copies_begun();\n";
  text += fmt::format("for (i64 first_row = {}; first_row < {}; first_row += {}) {{\n", begin, row_end_, row_step_) +
          indented(loop, "  ") + "}\n";
  if (chunked) text += sums_end();
  if (grouped) text += "}\n";
  const int blocks = held_ ? std::min(layout_.bound_blocks, 1024 / layout_.bound_threads) : layout_.bound_blocks;
  const std::string bounds = lanes ? std::to_string(kThreads) : fmt::format("{}, {}", layout_.bound_threads, blocks);
  return head("sweep", bounds) + indented(text, "  ") + "}\n";
}

}  // namespace ebb::cuda
