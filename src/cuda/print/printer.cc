// SPDX-License-Identifier: MIT
#include "cuda/print/printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/divisor.h"
#include "cuda/print/expression.h"

namespace ebb::cuda {

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (text[at] != '#') out += indent;
    out += text.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

std::vector<Printer::Kernel> Printer::kernels() const {
  sizes();
  std::vector<Kernel> made;
  if (plan_.shares_rows()) {
    made = shared_rows_kernels();
  } else {
    made = {plan_.mapping == Mapping::elements    ? elements_kernel()
            : plan_.mapping == Mapping::down_rows ? down_rows_kernel()
            : plan_.mapping == Mapping::columns   ? columns_kernel()
                                                  : rows_kernel()};
  }
  if (plan_.finishes) made.push_back(finish_kernel());
  for (Kernel& k : made)
    k.body.insert(0, std::string(k.name == "finish" ? "  wait_for_sweep();\n" : "") +
                         "  const bool first = blockIdx.x == 0 && threadIdx.x == 0;\n");
  return made;
}

std::string Printer::bounds() const {
  const LaunchPlan& l = plan_.launch;
  if (l.min_blocks == 0) return std::to_string(l.bound_threads);
  return fmt::format("{}, {}", l.bound_threads,
                     l.fewer_if_spilled ? fmt::format("BLOCKS({})", l.min_blocks) : std::to_string(l.min_blocks));
}

std::vector<char> Printer::needed_by(std::int32_t v) const {
  std::vector<char> needed(p_.instrs.size());
  need(p_, plan_, v, needed);
  return needed;
}

std::string Printer::bound(const std::string& type, const std::string& name, Parameter::Kind kind, int slot,
                           std::int64_t extra, DType dtype) const {
  return args_.add(type, name, {kind, slot, extra, dtype});
}

// The sizes of launches come first.
void Printer::sizes() const {
  number("columns", p_.columns());
  if (plan_.mapping == Mapping::elements) {
    number("n", plan_.full ? p_.rows() * p_.columns() : p_.rows());
  } else if (plan_.mapping == Mapping::down_rows) {
    number("rows", plan_.rows.elements());
    number("row_elements", plan_.columns.elements());
  } else {
    number("rows", p_.rows());
  }
  if (!plan_.totals.empty()) {
    number("parts", plan_.parts);
    if (!plan_.finish.columns) {
      number("part_groups", plan_.workspace.part_groups);
      number("group_sums", plan_.workspace.group_sums);
      number("counter", plan_.workspace.counter);
    }
  }
  if (!plan_.column_sums.empty()) {
    number("sums", plan_.workspace.sums);
    number("groups", plan_.groups);
    number("group_rows", plan_.group_rows);
  }
  if (plan_.shares_rows()) {
    number("row_blocks", plan_.row_blocks);
    number("segments", plan_.segments);
    number("segment_sums", plan_.workspace.segment_sums);
    number("picked", plan_.workspace.picked);
  }
  if (plan_.mapping == Mapping::row_groups) {
    number("kept_bytes", plan_.kept_bytes);
    number("kept", plan_.workspace.kept);
  }
  if (plan_.launch.workspace || !plan_.totals.empty() || !plan_.column_sums.empty())
    args_.add("u64*", "work", {Parameter::Kind::workspace, -1, 0, {}});
  if (!plan_.checks.empty()) {
    args_.add("ErrorSlot*", "error", {Parameter::Kind::error, -1, 0, {}});
    args_.add("i64", "step", {Parameter::Kind::error_step, -1, 0, {}});
  }
}

// const i64 r1 = ..., r0 = ...
std::string Printer::coordinates(const Walk& w) const {
  if (w.sizes.size() < 2) return "";
  if (w.elements() < (std::int64_t{1} << 31) - 2 * kSegment) {  // divided by products: see divisor.h
    std::string text = fmt::format("u32 {0}_rest = (u32){0};\n", w.linear);
    for (std::size_t d = w.sizes.size(); d-- > 1;) {
      const std::string size = number(fmt::format("{}_size{}", w.linear, d), w.sizes[d]);
      const std::string by = number(fmt::format("{}_by{}", w.linear, d), divisor_word(w.sizes[d]));
      text += fmt::format(
          "const u32 {0}_next{1} = (u32)((u64){0}_rest * (u32)({2} >> 32) >> 32) >> (u32){2};\n"
          "const i64 {3} = {0}_rest - {0}_next{1} * (u32){4};\n{0}_rest = {0}_next{1};\n",
          w.linear, d, by, w.at(d), size);
    }
    return text + fmt::format("const i64 {} = {}_rest;\n", w.at(0), w.linear);
  }
  std::string text = fmt::format("i64 {}_rest = {};\n", w.linear, w.linear), rest = w.linear + "_rest";
  for (std::size_t d = w.sizes.size(); d-- > 1;) {
    const std::string size = number(fmt::format("{}_size{}", w.linear, d), w.sizes[d]);
    text += fmt::format("const i64 {0}_next{1} = quotient({2}, {3}), {4} = {2} - {0}_next{1} * {3};\n", w.linear, d,
                        rest, size, w.at(d));
    text += fmt::format("{} = {}_next{};\n", rest, w.linear, d);
  }
  return text + fmt::format("const i64 {} = {};\n", w.at(0), rest);
}

std::string Printer::address(const Scope& scope, const Strides& strides, const std::string& who,
                             const Walk* only) const {
  std::string text;
  for (const Walk* w : {&plan_.elements, &plan_.rows, &plan_.columns}) {
    if (only && w != only) continue;
    if (plan_.mapping == Mapping::elements && w == &plan_.columns && !scope.in_finish) continue;
    if (scope.in_finish && w != &plan_.columns) continue;
    for (std::size_t d = 0; d < w->sizes.size(); ++d) {
      const std::int64_t s = strides[w->last[d]];
      if (s == 0) continue;
      if (!text.empty()) text += " + ";
      text += w->at(d);
      if (s != 1) text += " * " + number(fmt::format("{}_{}{}", who, w->coordinate, d), s);
    }
  }
  return text.empty() ? "0" : text;
}

std::string Printer::pointer(const Operand& o, std::int32_t operand) const {
  return bound(fmt::format("const {}*", memory_text(o.dtype)), fmt::format("x{}", operand), Parameter::Kind::pointer,
               o.slot, o.offset * static_cast<std::int64_t>(size_of(o.dtype)));
}
std::string Printer::pointer(const Output& o, std::size_t number_of_output) const {
  return bound(fmt::format("{}*", memory_text(o.dtype)), fmt::format("y{}", number_of_output), Parameter::Kind::pointer,
               o.slot);
}
// Whether packs of it are accessed whole: "true" or "false".
std::string Printer::aligned(const Strides& strides, DType dtype, const std::string& who) const {
  if (plan_.alignment == Alignment::any || !plan_.may_align(strides, dtype)) return "false";
  args_.expect_aligned(who);
  return "true";
}

std::string Printer::load(const Scope& scope, std::int32_t operand, RegType type) const {
  const Operand& o = p_.operands[at(operand)];
  const std::string name = fmt::format("x{}", operand);
  switch (o.kind) {
    case Operand::Kind::memory: {
      if (scope.in_leaf && plan_.vectors) {
        const bool one = plan_.access(o.strides, o.dtype) == Access::one;
        return loaded(name + (one ? "" : ".at(j)"), o.dtype, type);
      }
      return loaded(fmt::format("{}[{}]", pointer(o, operand), address(scope, o.strides, name)), o.dtype, type);
    }
    case Operand::Kind::constant:
      if (is_real(type))
        return fmt::format("({}){}", type_text(type), bound("f64", name, Parameter::Kind::real, o.slot, 0, o.dtype));
      return converted(bound("i64", name, Parameter::Kind::integer, o.slot, is_mask(type), o.dtype), RegType::i64,
                       type);
    case Operand::Kind::iota: {
      const std::string start = bound("i64", name + "_start", Parameter::Kind::start, o.slot, o.offset);
      const std::string step = bound("i64", name + "_step", Parameter::Kind::step, o.slot);
      if (type == RegType::i32)  // of a wrapping operation only the low half matters
        return fmt::format("sum((i32){}, product((i32){}, (i32)({})))", start, step, address(scope, o.strides, name));
      return converted(fmt::format("sum({}, product({}, (i64)({})))", start, step, address(scope, o.strides, name)),
                       RegType::i64, type);
    }
    default:
      if (scope.in_leaf && has_random_pack(o))
        return fmt::format("{}.at<{}>(j)", name, type == RegType::f64 ? "f64" : "f32");
      return fmt::format("uniform_{}({})", type == RegType::f64 ? "f64" : "f32", random_numbers(scope, operand));
  }
}

// Neighbours have consecutive random numbers.
bool Printer::has_random_pack(const Operand& o) const {
  return o.kind == Operand::Kind::random && plan_.vectors && plan_.width > 1 &&
         strides_along(plan_.line(), o.strides) == 1;
}
std::string Printer::random_numbers(const Scope& scope, std::int32_t operand) const {
  const Operand& o = p_.operands[at(operand)];
  const std::string name = fmt::format("x{}", operand);
  return fmt::format("{}, {}, (u64)({} + {})", bound("u64", name + "_seed", Parameter::Kind::seed, o.slot),
                     bound("u64", name + "_operation", Parameter::Kind::operation, o.slot),
                     bound("i64", name + "_start", Parameter::Kind::start, o.slot, o.offset),
                     address(scope, o.strides, name));
}

// The value as an expression of other values. Reductions and picks are computed elsewhere.
std::string Printer::expression(const Scope& scope, std::int32_t v) const {
  const Instr& i = instr(v);
  const std::int32_t a = i.arg[0], b = i.arg[1], c = i.arg[2];
  switch (i.kind) {
    case Kind::load:
      return load(scope, a, i.type);
    case Kind::convert:
      return converted(name(a), instr(a).type, i.type);
    case Kind::round:
      return rounded(name(a), i.dtype);
    case Kind::place:
      if (!scope.places) return plan_.only_added[at(v)] ? "-0.0f" : fmt::format("({})0", type_text(i.type));
      return fmt::format("col == place{} ? {} : ({})0", v, name(a), type_text(i.type));
    default:
      if (plan_.coarse[at(v)] && i.type == RegType::f32 && instr(a).type == RegType::f32) {
        if (const char* quick = quick_function(i.op))
          return fmt::format("{}({}{}{})", quick, name(a), b < 0 ? "" : ", ", name(b));
      }
      if (plan_.by_reciprocal[at(v)]) return fmt::format("quotient_by({}, reciprocal{})", name(a), b);
      return computed(i.op, instr(i.op == Op::where ? b : a).type, name(a), name(b), name(c));
  }
}
std::string Printer::define(std::int32_t v, const std::string& expression) const {
  std::string text = fmt::format("const {} {} = {};\n", type_text(instr(v).type), name(v), expression);
  if (plan_.divides[at(v)]) text += fmt::format("const f64 reciprocal{} = 1.0 / (f64){};\n", v, name(v));
  if (plan_.is_exponent[at(v)]) text += fmt::format("const Exponent exponent{} = kept_exponent({});\n", v, name(v));
  return text;
}

// if (!ok) complain(...), for check v, or for the index of pick or place v.
std::string Printer::check(std::int32_t v, const std::string& position, const std::string& guard) const {
  const Instr& i = instr(v);
  const std::string ok =
      i.kind == Kind::compute ? name(i.arg[1]) : fmt::format("((u64){} < (u64)a.columns)", name(i.arg[1]));
  const auto number = std::find(plan_.checks.begin(), plan_.checks.end(), v) - plan_.checks.begin();
  return fmt::format("if ({}!{}) complain(a.error, a.step, {}, {}, bits_of({}));\n", guard, ok, position, number,
                     name(i.kind == Kind::compute ? i.arg[0] : i.arg[1]));
}

std::string Printer::store(const Scope& scope, const Output& o, std::size_t number_of_output) const {
  return fmt::format("{}[{}] = {};\n", pointer(o, number_of_output),
                     address(scope, o.strides, fmt::format("y{}", number_of_output)),
                     stored(name(o.value), instr(o.value).type, o.dtype));
}

// Where `finish` counts its blocks.
std::string Printer::counter_begins() const {
  return plan_.totals.empty() || plan_.finish.columns ? "" : "if (first) a.work[a.counter] = 0;\n";
}

// Values of level scalar that do not come from reductions: the same for all threads.
std::string Printer::scalars(const Scope& scope, bool complaints) const {
  std::string text;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (instr(v).level != Level::scalar || in_epilogue(instr(v))) continue;
    text += define(scope, v);
    if (is_check(v) && complaints) text += check(v, "0", "first && ");
  }
  if (!complaints) return text;
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (i.level == Level::scalar && !in_epilogue(i)) text += "if (first) " + store(scope, p_.outputs[o], o);
  }
  return text;
}

std::string Printer::element_type(std::int32_t v) const {
  return is_real(instr(v).type) ? type_text(instr(v).type) : "i64";
}
// A maximum needs no wider type.
std::string Printer::wide_type(std::int32_t v) const {
  const Instr& i = instr(v);
  if (i.type == RegType::f32 && (i.op == Op::max || i.op == Op::min)) return "f32";
  return wide_text(i.type);
}
std::string Printer::element_of_reduction(std::int32_t v) const {
  const Instr& i = instr(v);
  return is_real(i.type) ? converted(name(i.arg[0]), instr(i.arg[0]).type, i.type)
                         : fmt::format("(i64){}", name(i.arg[0]));
}
std::string Printer::nothing(std::int32_t v) const {
  return fmt::format("{}::nothing<{}>()", reduction_text(instr(v).op), element_type(v));
}
std::string Printer::narrowed(std::int32_t v, const std::string& wide) const {
  const RegType t = instr(v).type;
  return converted(wide, !is_real(t) ? RegType::i64 : wide_type(v) == "f32" ? RegType::f32 : RegType::f64, t);
}
std::ptrdiff_t Printer::total_number(std::int32_t v) const {
  return std::find(plan_.totals.begin(), plan_.totals.end(), v) - plan_.totals.begin();
}
std::ptrdiff_t Printer::sum_number(std::int32_t v) const {
  return std::find(plan_.column_sums.begin(), plan_.column_sums.end(), v) - plan_.column_sums.begin();
}

SweepText print_kernel(const Program& program, const KernelPlan& plan) {
  Arguments args;
  std::string kernels;
  for (const Printer::Kernel& k : Printer(program, plan, args).kernels())
    kernels += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const Args a) {{\n{}}}\n", k.bounds,
                           k.name, k.body);
  SweepText text;
  static_cast<LaunchPlan&>(text) = plan.launch;
  text.text = args.text() + kernels;
  text.parameters = std::move(args.parameters());
  text.checks = plan.checks;
  return text;
}

SweepText print_sweep(const Program& program, const GpuModel& model, Alignment alignment) {
  return print_kernel(program, plan_kernel(program, model, alignment));
}

}  // namespace ebb::cuda
