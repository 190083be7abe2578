// SPDX-License-Identifier: MIT
// Neighbours that a thread takes at once.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {
namespace {

// Sets elements of a Pack: halves are rounded in pairs.
const char* set_name(DType dtype) {
  return dtype == DType::f16 ? "set_f16" : dtype == DType::bf16 ? "set_bf16" : "set";
}

}  // namespace

// The numbers of a staged operand's chunks.
std::string Printer::staged_chunks(std::int32_t operand) const {
  int first = 0;
  for (const std::int32_t before : plan_.staged) {
    if (before == operand) break;
    first += chunks_of(p_.operands[at(before)].dtype);
  }
  std::string text;
  for (int i = 0; i < chunks_of(p_.operands[at(operand)].dtype); ++i) text += fmt::format(", {}", first + i);
  return text;
}

std::string Printer::load_line(const Scope& scope, const PassPlan& pass, std::int32_t operand) const {
  const Operand& o = p_.operands[at(operand)];
  const std::string name = fmt::format("x{}", operand), type = memory_text(o.dtype);
  const Access access = plan_.access(o.strides, o.dtype);
  const bool staged = std::find(plan_.staged.begin(), plan_.staged.end(), operand) != plan_.staged.end();
  const std::string at = fmt::format("{} + ({})", pointer(o, operand), address(scope, o.strides, name));
  const std::string pack = fmt::format("const Pack<{}, {}> {}", type, plan_.width, name);
  const auto load_pack = [&] {
    return fmt::format("load_pack<{}>({}, {}, {})", plan_.width, at, aligned(o.strides, o.dtype, name), live(scope));
  };
  if (staged && scope.in_registers && plan_.holds_row())
    return fmt::format("anew({1}_row[slot]);\nconst Pack<{0}, 8>& {1} = {1}_row[slot];\n", type, name);
  if (staged) {
    const std::string own = read_staged(scope, operand);
    if (scope.in_registers && plan_.rest_in_registers())
      return fmt::format("{0} = k < {1} && slot < unstaged ? {2}_row[k < {1} ? k : 0] : {3};\n", pack,
                         plan_.held_leaves, name, own);
    return plan_.all_staged() || plan_.rest_in_registers()
               ? fmt::format("{} = {};\n", pack, own)
               : fmt::format("{} = slot < staged_slots ? {} : {};\n", pack, own, load_pack());
  }
  if (access == Access::one) return fmt::format("const {} {} = *({});\n", type, name, at);
  if (access == Access::pack && pass.shares_loads && plan_.width * size_of(o.dtype) == 32)
    return fmt::format("{} = load_together<{}>({}, {}, {}, {});\n", pack, plan_.width, at,
                       aligned(o.strides, o.dtype, name), live(scope), whole(scope));
  if (access == Access::pack) return fmt::format("{} = {};\n", pack, load_pack());
  const Walk& w = plan_.line();
  const std::int64_t inner = strides_along(w, o.strides);
  const std::string stride =
      inner == 1 ? "1" : number(fmt::format("{}_{}{}", name, w.coordinate, w.sizes.size() - 1), inner);
  return fmt::format("{} = load_each<{}>({}, {}, {});\n", pack, plan_.width, at, stride, live(scope));
}

// Whether all lanes of the warp have consecutive packs.
std::string Printer::whole(const Scope& scope) const {
  if (scope.whole && plan_.line().sizes.size() < 2) return "true";
  if (plan_.line().sizes.size() > 1) return "false";
  if (plan_.mapping == Mapping::down_rows) return "beside";
  if (plan_.width != kLeaf) return "false";
  switch (plan_.mapping) {
    case Mapping::elements:
      return "leaf - (int)(threadIdx.x & 31) * 8 + 256 <= a.n";
    case Mapping::columns:
      return "false";
    default:
      return plan_.lanes == 32 ? "leaf - lane * 8 + 256 <= columns" : "false";
  }
}

std::string Printer::position_of(std::int32_t v) const {
  if (!plan_.without_rows()) return "(i64)row * a.columns + col";
  return plan_.full && instr(v).level == Level::row ? "quotient(e, a.columns)" : "e";
}

// If one of the neighbours fails a check, each is checked again, recomputing the inputs of the checks from
// memory, so that the good case needs no branch per element. Precedes all stores; `coordinates` are those of
// neighbour j.
std::string Printer::complaints(const Scope& scope, const PassPlan& pass,
                                const std::string& coordinates_of_each) const {
  std::vector<char> needed(p_.instrs.size());
  for (const std::int32_t v : pass.checks) {
    need(p_, plan_, v, needed);
    need(p_, plan_, instr(v).arg[1], needed);
  }
  std::string text = coordinates_of_each;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!needed[at(v)]) continue;
    text += define(scope, v);
    if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
    text += check(v, position_of(v));
  }
  return fmt::format("if (wrong) {{\n#pragma unroll 1\n  for (int j = 0; j < {}; ++j) {{\n", live(scope)) +
         indented(text, "    ") + "  }\n}\n";
}

// The exponent as powers take it: what is common to all elements is computed once.
std::string Printer::exponent(std::int32_t v) const {
  if (instr(v).level == Level::scalar) return fmt::format("exponent{}", v);
  return fmt::format("exponent_of({})", name(v));
}

// Before power v: the logarithm of its base, if v is the pass's first power of it.
std::string Printer::logarithm_of_base(const PassPlan& pass, std::int32_t v) const {
  const auto shared = std::find_if(pass.logarithms.begin(), pass.logarithms.end(),
                                   [&](const SharedLogarithm& l) { return l.first == v; });
  if (shared == pass.logarithms.end()) return "";
  const std::int32_t base = instr(v).arg[0];
  std::string exponents;
  for (const std::int32_t e : shared->exponents) exponents += ", " + exponent(e);
  return fmt::format("const auto {0}log{1} = {0}logarithm_of_base({2}{3});\n", plan_.coarse[at(v)] ? "quick_" : "",
                     base, pass.in_pairs() ? as_two(pass, base) : name(base), exponents);
}

// The choice as a branch: values for its rare arm are computed there.
std::string Printer::define_with_branch(const Scope& scope, const RareArm& arm) const {
  const Instr& i = instr(arm.choice);
  const std::string made = name(arm.choice);
  std::string text = fmt::format("auto {} = {};\n", made, name(i.arg[arm.when ? 2 : 1])), in = "rarely();\n";
  for (const std::int32_t u : arm.values) in += define(scope, u);
  in += fmt::format("{} = {};\n", made, name(i.arg[arm.when ? 1 : 2]));
  return text + fmt::format("if ({}{}) {{\n", arm.when ? "" : "!", name(i.arg[0])) + indented(in, "  ") + "}\n";
}

// The neighbours from `leaf` on: loads their inputs, computes each, and stores their results.
std::string Printer::leaf(const Scope& outside, const PassPlan& pass) const {
  Scope scope = outside;
  scope.in_leaf = true;
  const Walk& walk = plan_.line();
  const std::string count = plan_.mapping == Mapping::elements    ? "a.n"
                            : plan_.mapping == Mapping::down_rows ? "a.row_elements"
                            : plan_.mapping == Mapping::columns   ? "a.columns"
                                                                  : "columns";
  const std::string index = plan_.small ? "int" : "i64";
  const int width = plan_.width;
  std::string before, body, after;
  if (tails(scope))
    before += fmt::format("const int live = {0} - leaf < {1} ? (int)({0} - leaf) : {1};\n", count, width);
  // Coordinates of the first, and of each.
  if (plan_.vectors) {
    before += fmt::format("const i64 {} = leaf;\n", walk.linear) + coordinates(walk);
    body += fmt::format("const {} {} = leaf + j;\n", index, walk.linear);
    if (walk.sizes.size() > 1) {
      const std::string inner = walk.at(walk.sizes.size() - 1);
      before += fmt::format("const i64 {0}_of_leaf = {0};\n", inner);
      body += fmt::format("const i64 {0} = {0}_of_leaf + j;\n", inner);
    }
  } else {
    body += fmt::format("const i64 {} = leaf + {};\n", walk.linear, tails(scope) ? "(j < live ? j : 0)" : "j") +
            coordinates(walk);
  }
  if (plan_.mapping == Mapping::down_rows && !pass.checks.empty())
    body += "const i64 e = row * a.row_elements + col;\n";
  const bool at_once = pass.checks_at_once, pairs = pass.in_pairs();
  if (!pass.checks.empty() && !at_once) {
    before += "bool wrong = false;\n";
    after += complaints(outside, pass, body);
  }
  const auto guarded = [&](const char* j) { return tails(scope) ? fmt::format("{} < live && ", j) : std::string(); };
  std::vector<char> loaded_operands(p_.operands.size());
  for (const std::int32_t o : pass.of_columns) loaded_operands[at(o)] = 1;
  for (const std::int32_t o : pass.ahead) {
    loaded_operands[at(o)] = 1;
    before += fmt::format("const auto& x{0} = ahead{0}[u];\n", o);
  }
  const auto kept = [&](const char* verb, const KeptValue& k) {
    return fmt::format("{}<{}, {}, {}>(mine, slot", verb, memory_text(k.dtype), plan_.staged_chunks,
                       fmt::join(k.chunks, ", "));
  };
  if (pass.takes_row && scope.in_registers && plan_.all_staged()) before += take_leaf(scope);
  for (const KeptValue& k : pass.found) {
    if (pass.needed[at(k.value)])
      before +=
          fmt::format("const Pack<{}, 8> found{} = {});\n", memory_text(k.dtype), k.value, kept("read_chunks", k));
  }
  std::vector<const RareArm*> arms(p_.instrs.size());
  std::vector<char> in_arm(p_.instrs.size());
  for (const RareArm& arm : pass.rare_arms) {
    arms[at(arm.choice)] = &arm;
    for (const std::int32_t u : arm.values) in_arm[at(u)] = 1;
  }
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[at(v)] || in_arm[at(v)]) continue;
    const Instr& i = instr(v);
    const auto found =
        std::find_if(pass.found.begin(), pass.found.end(), [&](const KeptValue& k) { return k.value == v; });
    if (pairs && (found != pass.found.end() || i.kind != Kind::load)) {
      body += define_two(scope, pass, v);
      if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
      body += fmt::format("wrong |= ({1}!{0}.a) || ({2}!{0}.b);\n", name(i.arg[1]), guarded("j"), guarded("j + 1"));
      continue;
    }
    if (found != pass.found.end()) {
      body += define(v, loaded(fmt::format("found{}.at(j)", v), found->dtype, i.type));
      continue;
    }
    if (i.kind == Kind::load && plan_.vectors) {
      const auto o = at(i.arg[0]);
      const bool memory = p_.operands[o].kind == Operand::Kind::memory;
      if ((memory || has_random_pack(p_.operands[o])) && !loaded_operands[o]) {
        loaded_operands[o] = 1;
        before +=
            memory ? load_line(scope, pass, i.arg[0])
                   : fmt::format("const auto x{} = random_pack<{}>({});\n", o, width, random_numbers(scope, i.arg[0]));
      }
    }
    if (pairs) {
      body += define_two(scope, pass, v);
      continue;
    }
    if (is_power(i)) {
      const char* const quick = plan_.coarse[at(v)] ? "quick_" : "";
      body += logarithm_of_base(pass, v);
      body +=
          define(v, fmt::format("{0}power({1}, {2}, {0}log{3})", quick, name(i.arg[0]), exponent(i.arg[1]), i.arg[0]));
      continue;
    }
    body += arms[at(v)] ? define_with_branch(scope, *arms[at(v)]) : define(scope, v);
    if (std::find(pass.checks.begin(), pass.checks.end(), v) == pass.checks.end()) continue;
    body += at_once ? check(v, position_of(v), tails(scope) ? "j < live && " : "")
                    : fmt::format("wrong |= {}!{};\n", tails(scope) ? "j < live && " : "", name(i.arg[1]));
  }
  for (const KeptValue& k : pass.keeps) {
    before += fmt::format("Pack<{}, 8> keep{};\n", memory_text(k.dtype), k.value);
    if (pairs && is_half(k.dtype)) {
      body += fmt::format("keep{}.w[j >> 1] = {}.bits;\n", k.value, as_halves(pass, k.value, k.dtype));
    } else if (pairs) {
      body +=
          fmt::format("keep{0}.set(j, low({1}));\nkeep{0}.set(j + 1, high({1}));\n", k.value, as_two(pass, k.value));
    } else {
      body += fmt::format("keep{}.{}(j, {});\n", k.value, set_name(k.dtype), name(k.value));
    }
    after += fmt::format("{}, keep{});\n", kept("write_chunks", k), k.value);
  }
  for (const std::size_t o : pass.outputs) {
    const Output& out = p_.outputs[o];
    const Instr& i = instr(out.value);
    const std::string who = fmt::format("y{}", o), type = memory_text(out.dtype);
    const Access access = plan_.access(out.strides, out.dtype);
    const bool of_row = plan_.mapping == Mapping::elements && plan_.full && i.level == Level::row;
    if (of_row || !plan_.vectors || access == Access::one) {
      std::string guard = tails(scope) ? "j < live" : "";
      if (of_row) guard += (guard.empty() ? "" : " && ") + std::string("e == quotient(e, a.columns) * a.columns");
      if (!guard.empty()) body += "if (" + guard + ") ";
      body += store(scope, out, o);
      continue;
    }
    before += fmt::format("Pack<{}, {}> {};\n", type, width, who);
    const bool half = is_half(out.dtype);  // storing it rounds
    const std::int32_t value = half && i.kind == Kind::round && i.dtype == out.dtype ? i.arg[0] : out.value;
    if (pairs) {
      body += fmt::format("{}.w[j >> 1] = {}.bits;\n", who, as_halves(pass, out.value, out.dtype));
    } else if (half && width % 2 == 0) {
      body += fmt::format("{}.{}(j, {});\n", who, set_name(out.dtype),
                          converted(name(value), instr(value).type, RegType::f32));
    } else {
      body += fmt::format("{}.set(j, {});\n", who, stored(name(value), instr(value).type, out.dtype));
    }
    const std::string at = fmt::format("{} + ({})", pointer(out, o), address(scope, out.strides, who));
    if (access == Access::pack) {
      after += fmt::format("store_pack<{}>({}, {}, {}, {}, {});\n", width, at, who,
                           aligned(out.strides, out.dtype, who), live(scope), whole(scope));
    } else {
      const std::int64_t inner = strides_along(walk, out.strides);
      const std::string stride =
          inner == 1 ? "1" : number(fmt::format("{}_{}{}", who, walk.coordinate, walk.sizes.size() - 1), inner);
      after += fmt::format("store_each<{}>({}, {}, {}, {});\n", width, at, stride, who, live(scope));
    }
  }
  for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
    const std::int32_t v = pass.reductions[r];
    if (const std::int32_t halves = pass.half_maxima[r]; halves >= 0) {
      after += tails(scope) ? fmt::format("sum{}.add(x{}, live);\n", v, halves)
                            : fmt::format("sum{}.add(x{});\n", v, halves);
      continue;
    }
    if (pairs) {
      const std::int32_t from = instr(v).arg[0];
      for (const auto& [j, which] : {std::pair{"j", "low"}, std::pair{"j + 1", "high"}}) {
        const std::string x =
            pass.forms[at(from)].kind != Form::Kind::one ? fmt::format("{}({})", which, name(from)) : name(from);
        body += tails(scope) ? fmt::format("sum{0}.add({1}, {1} < live ? {2} : {3});\n", v, j, x, nothing(v))
                             : fmt::format("sum{}.add({}, {});\n", v, j, x);
      }
      continue;
    }
    const std::string x = element_of_reduction(v);
    body += tails(scope) ? fmt::format("sum{}.add(j, j < live ? {} : {});\n", v, x, nothing(v))
                         : fmt::format("sum{}.add(j, {});\n", v, x);
  }
  for (const std::int32_t v : pass.sums) {
    const std::string op = reduction_text(instr(v).op);
    if (plan_.mapping == Mapping::columns) {
      body += fmt::format("chunk{0}[j] = {1}::of(chunk{0}[j], {2});\n", v, op, element_of_reduction(v));
      continue;
    }
    if (plan_.chunk_warps > 0) {
      body +=
          fmt::format("chunk{0}[slot].set(j, {1}::of(chunk{0}[slot].at(j), {2}));\n", v, op, element_of_reduction(v));
      continue;
    }
    const std::string kept = fmt::format("kept_at + kept{}", v);
    before += fmt::format("Pack<{0}, 8> chunk{1} = chunk_begins ? all_of({2}) : read_own<{0}>({3}, slot);\n",
                          element_type(v), v, nothing(v), kept);
    body += fmt::format("chunk{0}.set(j, {1}::of(chunk{0}.at(j), {2}));\n", v, op, element_of_reduction(v));
    after += fmt::format("write_own({}, slot, chunk{});\n", kept, v);
  }
  if (width == 1) return before + "const int j = 0;\n{\n" + indented(body, "  ") + "}\n" + after;
  return before + fmt::format("#pragma unroll\nfor (int j = 0; j < {}; {}) {{\n", width, pairs ? "j += 2" : "++j") +
         indented(body, "  ") + "}\n" + after;
}

}  // namespace ebb::cuda
