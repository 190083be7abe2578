// Neighbours that a thread takes at once.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {
namespace {

// Of a Pack: halves are rounded in pairs.
const char* set_name(DType dtype) {
  return dtype == DType::f16 ? "set_f16" : dtype == DType::bf16 ? "set_bf16" : "set";
}

}  // namespace

// Marks what v is made of among values of the line, from those that are found on chip on.
void Printer::need(std::int32_t v, std::vector<char>& needed, const std::vector<KeptValue>& found) const {
  if (v < 0 || needed[static_cast<std::size_t>(v)]) return;
  const Instr& i = instr(v);
  if (i.level == Level::scalar || in_epilogue(i)) return;
  if (layout_.mapping != Mapping::elements && i.level != Level::full) return;
  needed[static_cast<std::size_t>(v)] = 1;
  if (i.kind == Kind::load) return;
  if (std::any_of(found.begin(), found.end(), [&](const KeptValue& k) { return k.value == v; })) return;
  for (const std::int32_t a : i.arg) need(a, needed, found);
}

// Of an element of the pass, about.
double Printer::instructions(const Pass& pass) const {
  double sum = 0;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (pass.needed[static_cast<std::size_t>(v)])
      sum += instructions_of(p_, v, coarse_[static_cast<std::size_t>(v)] != 0);
  }
  return sum + static_cast<double>(pass.reductions.size() + pass.sums.size() + pass.outputs.size());
}

// The numbers of a staged operand's chunks.
std::string Printer::staged_chunks(std::int32_t operand) const {
  int first = 0;
  for (const std::int32_t before : layout_.staged) {
    if (before == operand) break;
    first += chunks_of(p_.operands[static_cast<std::size_t>(before)].dtype);
  }
  std::string text;
  for (int i = 0; i < chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype); ++i)
    text += fmt::format(", {}", first + i);
  return text;
}

int Printer::staged_chunk_count() const {
  int count = 0;
  for (const std::int32_t operand : layout_.staged)
    count += chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype);
  return count;
}

std::string Printer::load_line(std::int32_t operand, bool on_chip) {
  const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
  const std::string name = fmt::format("x{}", operand), type = memory_text(o.dtype);
  const Access access = layout_.access(o.strides, o.dtype);
  const auto staged = std::find(layout_.staged.begin(), layout_.staged.end(), operand);
  const std::string at = fmt::format("{} + ({})", pointer(o, operand), address(o.strides, name));
  const std::string pack = fmt::format("const Pack<{}, {}> {}", type, layout_.width, name);
  const auto load_pack = [&] {
    return fmt::format("load_pack<{}>({}, {}, {})", layout_.width, at, aligned(o.strides, o.dtype, name), live());
  };
  if (on_chip && in_registers_ && held_ && staged != layout_.staged.end())
    return fmt::format("anew({1}_row[slot]);\nconst Pack<{0}, 8>& {1} = {1}_row[slot];\n", type, name);
  if (on_chip && staged != layout_.staged.end()) {
    const std::string own =
        fmt::format("read_chunks<{}, {}{}>(mine, {})", type, staged_chunk_count(), staged_chunks(operand), chip_slot());
    if (in_registers_ && rest_in_registers())
      return fmt::format("{0} = k < {1} && slot < unstaged ? {2}_row[k < {1} ? k : 0] : {3};\n", pack, held_leaves(),
                         name, own);
    return all_staged() || rest_in_registers()
               ? fmt::format("{} = {};\n", pack, own)
               : fmt::format("{} = slot < staged_slots ? {} : {};\n", pack, own, load_pack());
  }
  if (access == Access::one) return fmt::format("const {} {} = *({});\n", type, name, at);
  if (access == Access::pack && reads_many_ && layout_.width * size_of(o.dtype) == 32)
    return fmt::format("{} = load_together<{}>({}, {}, {}, {});\n", pack, layout_.width, at,
                       aligned(o.strides, o.dtype, name), live(), whole());
  if (access == Access::pack) return fmt::format("{} = {};\n", pack, load_pack());
  const Walk& w = layout_.line();
  const std::int64_t inner = strides_along(w, o.strides);
  const std::string stride =
      inner == 1 ? "1" : number(fmt::format("{}_{}{}", name, w.coordinate, w.sizes.size() - 1), inner);
  return fmt::format("{} = load_each<{}>({}, {}, {});\n", pack, layout_.width, at, stride, live());
}

// The operand of halves whose maximum v is, if it is one and its neighbours come as they are: halves compare in pairs.
// -1: v is something else.
std::int32_t Printer::halves_of_maximum(std::int32_t v) const {
  if (instr(v).kind != Kind::reduce || instr(v).op != Op::max || layout_.tails || !layout_.vectors) return -1;
  std::int32_t from = instr(v).arg[0];
  while (instr(from).kind == Kind::compute && instr(from).op == Op::copy) from = instr(from).arg[0];
  if (instr(from).kind != Kind::load) return -1;
  const std::int32_t operand = instr(from).arg[0];
  const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
  const bool pairs = o.kind == Operand::Kind::memory && is_half(o.dtype) && instr(v).type == RegType::f32 &&
                     layout_.access(o.strides, o.dtype) == Access::pack;
  return pairs ? operand : -1;
}

// Whether all lanes of the warp have packs, side by side.
std::string Printer::whole() const {
  if (whole_segment_ && layout_.line().sizes.size() < 2) return "true";
  if (layout_.width != kLeaf || layout_.line().sizes.size() > 1) return "false";
  switch (layout_.mapping) {
    case Mapping::elements:
      return "leaf - (int)(threadIdx.x & 31) * 8 + 256 <= a.n";
    case Mapping::columns:
      return "false";
    default:
      return layout_.lanes == 32 ? "leaf - lane * 8 + 256 <= columns" : "false";
  }
}

std::string Printer::position_of(std::int32_t v) const {
  if (layout_.mapping != Mapping::elements) return "(i64)row * a.columns + col";
  return layout_.full && instr(v).level == Level::row ? "quotient(e, a.columns)" : "e";
}

// Where one of the neighbours is wrong, each is looked at again: what the checks need is made from memory once more, so
// that all is well without a branch for every element. Comes before anything is stored; `coordinates` are those of
// neighbour j.
std::string Printer::complaints(const Pass& pass, const std::string& coordinates_of_each) {
  std::vector<char> needed(static_cast<std::size_t>(n_));
  for (const std::int32_t v : pass.checks) {
    need(v, needed);
    need(instr(v).arg[1], needed);
  }
  std::string text = coordinates_of_each;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!needed[static_cast<std::size_t>(v)]) continue;
    text += define(v);
    if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
    text += check(v, position_of(v));
  }
  return fmt::format("if (wrong) {{\n#pragma unroll 1\n  for (int j = 0; j < {}; ++j) {{\n", live()) +
         indented(text, "    ") + "  }\n}\n";
}

bool Printer::is_power(std::int32_t v) const {
  const Instr& i = instr(v);
  return i.kind == Kind::compute && i.op == Op::pow && i.type == RegType::f32;
}

// As powers take it: what all elements have is made once.
std::string Printer::exponent(std::int32_t v) const {
  if (instr(v).level == Level::scalar) return fmt::format("exponent{}", v);
  return fmt::format("exponent_of({})", name(v));
}

// Before power v: the logarithm of its base, if this is the pass's first power of it. A value and its gradient have
// powers of one base.
std::string Printer::logarithm_of_base(const Pass& pass, std::int32_t v) const {
  const std::int32_t base = instr(v).arg[0];
  const bool coarse = coarse_[static_cast<std::size_t>(v)] != 0;
  std::string exponents;
  bool known = true;
  for (std::int32_t u = 0; u < n_; ++u) {
    if (!pass.needed[static_cast<std::size_t>(u)] || !is_power(u) || instr(u).arg[0] != base ||
        (coarse_[static_cast<std::size_t>(u)] != 0) != coarse)
      continue;
    if (u < v) return "";
    known = known && instr(instr(u).arg[1]).level == Level::scalar;
    exponents += ", " + exponent(instr(u).arg[1]);
  }
  return fmt::format("const auto {0}log{1} = {0}logarithm_of_base({2}{3});\n", coarse ? "quick_" : "", base,
                     forms_.empty() ? name(base) : as_two(base), known ? exponents : "");
}

// The neighbours from `leaf` on: what they need is loaded, each is computed, and what they give is stored.
std::string Printer::leaf(const Pass& pass) {
  const Walk& walk = layout_.line();
  const std::string count = layout_.mapping == Mapping::elements  ? "a.n"
                            : layout_.mapping == Mapping::columns ? "a.columns"
                                                                  : "columns";
  const std::string index = layout_.small ? "int" : "i64";
  const int width = layout_.width;
  std::string before, body, after;
  if (tails()) before += fmt::format("const int live = {0} - leaf < {1} ? (int)({0} - leaf) : {1};\n", count, width);
  // Coordinates of the first, and of each.
  if (layout_.vectors) {
    before += fmt::format("const i64 {} = leaf;\n", walk.linear) + coordinates(walk);
    body += fmt::format("const {} {} = leaf + j;\n", index, walk.linear);
    if (walk.sizes.size() > 1) {
      const std::string inner = walk.at(walk.sizes.size() - 1);
      before += fmt::format("const i64 {0}_of_leaf = {0};\n", inner);
      body += fmt::format("const i64 {0} = {0}_of_leaf + j;\n", inner);
    }
  } else {
    body += fmt::format("const i64 {} = leaf + {};\n", walk.linear, tails() ? "(j < live ? j : 0)" : "j") +
            coordinates(walk);
  }
  // Where a pass before may have stored over what the checks are made of, they complain at once.
  const bool at_once = std::any_of(p_.outputs.begin(), p_.outputs.end(), [&](const Output& o) {
    return instr(o.value).level == Level::full && !pass.checks.empty() &&
           instr(o.value).stage < instr(pass.checks[0]).stage;
  });
  if (!pass.checks.empty() && !at_once) {
    before += "bool wrong = false;\n";
    after += complaints(pass, body);
  }
  const bool pairs = !at_once && choose_forms(pass);
  if (!pairs) forms_.clear();
  const auto is_pair = [&](std::int32_t v) { return forms_[static_cast<std::size_t>(v)].kind != Form::Kind::one; };
  const auto guarded = [&](const char* j) { return tails() ? fmt::format("{} < live && ", j) : std::string(); };
  in_leaf_ = true;
  std::vector<char> loaded_operands(p_.operands.size());
  const auto kept = [&](const char* verb, const KeptValue& k) {
    return fmt::format("{}<{}, {}, {}>(mine, slot", verb, memory_text(k.dtype), staged_chunk_count(),
                       fmt::join(k.chunks, ", "));
  };
  if (pass.takes_row && in_registers_ && all_staged()) before += take_leaf();
  for (const KeptValue& k : pass.found) {
    if (pass.needed[static_cast<std::size_t>(k.value)])
      before +=
          fmt::format("const Pack<{}, 8> found{} = {});\n", memory_text(k.dtype), k.value, kept("read_chunks", k));
  }
  std::vector<std::vector<std::int32_t>> arms(static_cast<std::size_t>(n_));
  std::vector<char> in_arm(static_cast<std::size_t>(n_));
  for (std::int32_t v = pairs ? 0 : n_; v-- > 0;) {
    if (!pass.needed[static_cast<std::size_t>(v)] || in_arm[static_cast<std::size_t>(v)]) continue;
    arms[static_cast<std::size_t>(v)] = rare_arm(pass, v);
    for (const std::int32_t u : arms[static_cast<std::size_t>(v)]) in_arm[static_cast<std::size_t>(u)] = 1;
  }
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[static_cast<std::size_t>(v)] || in_arm[static_cast<std::size_t>(v)]) continue;
    const Instr& i = instr(v);
    const auto found =
        std::find_if(pass.found.begin(), pass.found.end(), [&](const KeptValue& k) { return k.value == v; });
    if (pairs && (found != pass.found.end() || i.kind != Kind::load)) {
      body += define_two(pass, v);
      if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
      body += fmt::format("wrong |= ({1}!{0}.a) || ({2}!{0}.b);\n", name(i.arg[1]), guarded("j"), guarded("j + 1"));
      continue;
    }
    if (found != pass.found.end()) {
      body += define(v, loaded(fmt::format("found{}.at(j)", v), found->dtype, i.type));
      continue;
    }
    if (i.kind == Kind::load && layout_.vectors) {
      const auto o = static_cast<std::size_t>(i.arg[0]);
      if (p_.operands[o].kind == Operand::Kind::memory && !loaded_operands[o]) {
        loaded_operands[o] = 1;
        before += load_line(i.arg[0], pass.on_chip);
      }
    }
    if (pairs) {
      body += define_two(pass, v);
      continue;
    }
    if (is_power(v)) {
      const char* const quick = coarse_[static_cast<std::size_t>(v)] ? "quick_" : "";
      body += logarithm_of_base(pass, v);
      body +=
          define(v, fmt::format("{0}power({1}, {2}, {0}log{3})", quick, name(i.arg[0]), exponent(i.arg[1]), i.arg[0]));
      continue;
    }
    const std::vector<std::int32_t>& arm = arms[static_cast<std::size_t>(v)];
    body += arm.empty() ? define(v) : define_with_branch(v, arm);
    if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
    body += at_once ? check(v, position_of(v), tails() ? "j < live && " : "")
                    : fmt::format("wrong |= {}!{};\n", tails() ? "j < live && " : "", name(i.arg[1]));
  }
  for (const KeptValue& k : pass.keeps) {
    before += fmt::format("Pack<{}, 8> keep{};\n", memory_text(k.dtype), k.value);
    if (pairs && is_half(k.dtype)) {
      body += fmt::format("keep{}.w[j >> 1] = {}.bits;\n", k.value, as_halves(k.value, k.dtype));
    } else if (pairs) {
      body += fmt::format("keep{0}.set(j, low({1}));\nkeep{0}.set(j + 1, high({1}));\n", k.value, as_two(k.value));
    } else {
      body += fmt::format("keep{}.{}(j, {});\n", k.value, set_name(k.dtype), name(k.value));
    }
    after += fmt::format("{}, keep{});\n", kept("write_chunks", k), k.value);
  }
  for (const std::size_t o : pass.outputs) {
    const Output& out = p_.outputs[o];
    const Instr& i = instr(out.value);
    const std::string who = fmt::format("y{}", o), type = memory_text(out.dtype);
    const Access access = layout_.access(out.strides, out.dtype);
    const bool of_row = layout_.mapping == Mapping::elements && layout_.full && i.level == Level::row;
    if (of_row || !layout_.vectors || access == Access::one) {
      std::string guard = tails() ? "j < live" : "";
      if (of_row) guard += (guard.empty() ? "" : " && ") + std::string("e == quotient(e, a.columns) * a.columns");
      if (!guard.empty()) body += "if (" + guard + ") ";
      body += store(out, o);
      continue;
    }
    before += fmt::format("Pack<{}, {}> {};\n", type, width, who);
    // What is stored as a half is rounded there.
    const bool half = out.dtype == DType::f16 || out.dtype == DType::bf16;
    const std::int32_t value = half && i.kind == Kind::round && i.dtype == out.dtype ? i.arg[0] : out.value;
    if (pairs) {
      body += fmt::format("{}.w[j >> 1] = {}.bits;\n", who, as_halves(out.value, out.dtype));
    } else if (half && width % 2 == 0) {
      body += fmt::format("{}.{}(j, {});\n", who, set_name(out.dtype),
                          converted(name(value), instr(value).type, RegType::f32));
    } else {
      body += fmt::format("{}.set(j, {});\n", who, stored(name(value), instr(value).type, out.dtype));
    }
    const std::string at = fmt::format("{} + ({})", pointer(out, o), address(out.strides, who));
    if (access == Access::pack) {
      after += fmt::format("store_pack<{}>({}, {}, {}, {}, {});\n", width, at, who,
                           aligned(out.strides, out.dtype, who), live(), whole());
    } else {
      const std::int64_t inner = strides_along(walk, out.strides);
      const std::string stride =
          inner == 1 ? "1" : number(fmt::format("{}_{}{}", who, walk.coordinate, walk.sizes.size() - 1), inner);
      after += fmt::format("store_each<{}>({}, {}, {}, {});\n", width, at, stride, who, live());
    }
  }
  for (const std::int32_t v : pass.reductions) {
    if (const std::int32_t halves = halves_of_maximum(v); halves >= 0) {
      after += fmt::format("sum{}.add(x{});\n", v, halves);
      continue;
    }
    if (pairs) {
      const std::int32_t from = instr(v).arg[0];
      for (const auto& [j, which] : {std::pair{"j", "low"}, std::pair{"j + 1", "high"}}) {
        const std::string x = is_pair(from) ? fmt::format("{}({})", which, name(from)) : name(from);
        body += tails() ? fmt::format("sum{0}.add({1}, {1} < live ? {2} : {3});\n", v, j, x, nothing(v))
                        : fmt::format("sum{}.add({}, {});\n", v, j, x);
      }
      continue;
    }
    const std::string x = element_of_reduction(v);
    body += tails() ? fmt::format("sum{}.add(j, j < live ? {} : {});\n", v, x, nothing(v))
                    : fmt::format("sum{}.add(j, {});\n", v, x);
  }
  for (const std::int32_t v : pass.sums) {
    const std::string op = reduction_text(instr(v).op);
    if (layout_.mapping == Mapping::columns) {
      body += fmt::format("chunk{0}[j] = {1}::of(chunk{0}[j], {2});\n", v, op, element_of_reduction(v));
      continue;
    }
    if (layout_.chunk_warps > 0) {
      body +=
          fmt::format("chunk{0}[slot].set(j, {1}::of(chunk{0}[slot].at(j), {2}));\n", v, op, element_of_reduction(v));
      continue;
    }
    const std::string kept = fmt::format("kept_at + kept{}", v);
    before += fmt::format("Pack<{0}, 8> chunk{1} = chunk_begins ? all_of({2}) : read_own<{0}>({3}, slot);\n",
                          element_type(v), v, nothing(v), kept);
    body += fmt::format("chunk{0}.set(j, {1}::of(chunk{0}.at(j), {2}));\n", v, op, element_of_reduction(v));
    after += fmt::format("write_own({}, slot, chunk{});\n", kept, v);
    after += fmt::format(
        "if (chunk_ends) add_chunk<{}, {}>(a.work + a.sums + ({} * a.groups + group) * a.columns + leaf, chunk{}, "
        "{}, group_begins);\n",
        op, wide_text(instr(v).type), sum_number(v), v, live());
  }
  in_leaf_ = false;
  if (width == 1) return before + "const int j = 0;\n{\n" + indented(body, "  ") + "}\n" + after;
  return before + fmt::format("#pragma unroll\nfor (int j = 0; j < {}; {}) {{\n", width, pairs ? "j += 2" : "++j") +
         indented(body, "  ") + "}\n" + after;
}

}  // namespace ebb::cuda
