#include "cuda/print/printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/format_error.h"
#include "cuda/print/expression.h"

namespace ebb::cuda {

constexpr std::int64_t kPartsOfBlock = 1 << 15;  // that one block adds in the end

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

Printer::Printer(const Program& program, const GpuLimits& limits, Alignment alignment)
    : p_(program),
      layout_(layout_of(program, limits)),
      alignment_(alignment),
      n_(static_cast<std::int32_t>(program.instrs.size())) {
  const auto is_half = [](DType d) { return d == DType::f16 || d == DType::bf16; };
  const bool all_halves =
      std::any_of(p_.outputs.begin(), p_.outputs.end(), [&](const Output& o) { return is_half(o.dtype); }) &&
      std::all_of(p_.outputs.begin(), p_.outputs.end(),
                  [&](const Output& o) { return is_half(o.dtype) || !is_floating(o.dtype); });
  half_numbers_ = half_numbers();
  coarse_.assign(p_.instrs.size(), 1);
  if (!all_halves) {
    for (const Output& o : p_.outputs) coarse_[static_cast<std::size_t>(o.value)] &= is_half(o.dtype);
    for (std::int32_t v = n_; v-- > 0;) {
      const Instr& i = instr(v);
      if (is_check(v)) coarse_[static_cast<std::size_t>(v)] = 0;
      if (coarse_[static_cast<std::size_t>(v)] || i.kind == Kind::load || (i.kind == Kind::round && is_half(i.dtype)))
        continue;
      for (const std::int32_t u : i.arg) {
        if (u >= 0) coarse_[static_cast<std::size_t>(u)] = 0;
      }
    }
  }
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if ((i.kind == Kind::compute && i.op == Op::check) || i.kind == Kind::pick || i.kind == Kind::place) {
      number_[v] = static_cast<int>(out_.checks.size());
      out_.checks.push_back(v);
    }
    if (i.kind == Kind::total) totals_.push_back(v);
    if (i.kind == Kind::columns) column_sums_.push_back(v);
  }
  require(out_.checks.size() < (1u << ErrorSlot::kCheckBits), "internal: a sweep has {} checks", out_.checks.size());
}

SweepText Printer::run() {
  sizes();
  std::string kernels = layout_.mapping == Mapping::elements  ? elements_kernel()
                        : layout_.mapping == Mapping::columns ? columns_kernel()
                                                              : rows_kernel();
  if (ends_later()) kernels += finish_kernel();
  out_.text = "struct Args {\n" + fields_ + "};\n" + kernels;
  return std::move(out_);
}

bool Printer::in_epilogue(const Instr& i) const {
  return i.stage >= p_.stages || i.kind == Kind::total || i.kind == Kind::columns || i.level == Level::column;
}
bool Printer::sums_of_columns() const {
  return std::any_of(p_.instrs.begin(), p_.instrs.end(), [](const Instr& i) { return i.level == Level::column; });
}
bool Printer::ends_later() const {
  return std::any_of(p_.instrs.begin(), p_.instrs.end(), [&](const Instr& i) { return in_epilogue(i); });
}

std::string Printer::member(const std::string& type, const std::string& name, const Parameter& parameter) {
  if (members_.emplace(name, out_.parameters.size()).second) {
    fields_ += fmt::format("  {} {};\n", type, name);
    out_.parameters.push_back(parameter);
  }
  return "a." + name;
}
std::string Printer::number(const std::string& name, std::int64_t value) {
  return member("i64", name, {Parameter::Kind::number, -1, value, {}});
}
std::string Printer::bound(const std::string& type, const std::string& name, Parameter::Kind kind, int slot,
                           std::int64_t extra, DType dtype) {
  return member(type, name, {kind, slot, extra, dtype});
}

// Arguments and the launch.
void Printer::sizes() {
  const std::int64_t rows = p_.rows(), columns = p_.columns();
  out_.blocks = layout_.blocks;
  out_.threads = static_cast<unsigned>(layout_.threads);
  out_.stays = !layout_.staged.empty();
  out_.row_of_block = layout_.mapping == Mapping::block_per_row;
  number("columns", columns);
  if (layout_.mapping == Mapping::elements) {
    number("n", layout_.full ? rows * columns : rows);
  } else {
    number("rows", rows);
  }
  std::int64_t words = 0;
  unsigned finish_blocks = 1;
  if (!totals_.empty()) {
    number("parts", layout_.parts);
    words += static_cast<std::int64_t>(totals_.size()) * layout_.parts;
    const std::int64_t groups = (layout_.parts + layout_.parts_of_group() - 1) / layout_.parts_of_group();
    if (groups > 8) out_.finish_threads = static_cast<unsigned>(layout_.finish_threads());
    if (!sums_of_columns()) {
      number("part_groups", groups);
      number("group_sums", words);
      words += static_cast<std::int64_t>(totals_.size()) * groups;
      number("counter", words++);
      // What one multiprocessor would read for longer than several take to agree.
      if (layout_.parts > kPartsOfBlock) {
        out_.finish_threads = kThreads;
        finish_blocks = static_cast<unsigned>(std::min<std::int64_t>(128, (groups + 7) / 8));
      }
    }
  }
  if (!column_sums_.empty()) {
    number("sums", words);  // where they begin
    number("groups", layout_.groups);
    number("group_rows", layout_.group_rows);
    words += static_cast<std::int64_t>(column_sums_.size()) * layout_.groups * columns;
  }
  std::int64_t shared = 0;
  if (!layout_.staged.empty()) {
    shared += layout_.row_bytes;
  }
  if (layout_.mapping == Mapping::row_groups) {
    number("kept_bytes", layout_.kept_bytes);
    if (layout_.kept_on_chip) {
      number("kept", shared);
      shared += layout_.kept_bytes;
    } else {
      words += words % 2;  // 16 bytes at a time
      number("kept", words);
      words += layout_.kept_bytes / 8 * layout_.blocks;
    }
  }
  out_.shared = static_cast<unsigned>(shared);
  if (words || !totals_.empty() || !column_sums_.empty())
    member("u64*", "work", {Parameter::Kind::workspace, -1, 0, {}});
  out_.workspace = static_cast<std::size_t>(words) * sizeof(std::uint64_t);
  if (!out_.checks.empty()) {
    member("ErrorSlot*", "error", {Parameter::Kind::error, -1, 0, {}});
    member("i64", "step", {Parameter::Kind::error_step, -1, 0, {}});
  }
  if (ends_later()) {
    const std::int64_t columns_of_block = std::int64_t{1} << layout_.finish_column_bits();
    out_.finish_blocks = sums_of_columns() ? static_cast<unsigned>(std::clamp<std::int64_t>(
                                                 (columns + columns_of_block - 1) / columns_of_block, 1, 65536))
                                           : finish_blocks;
  }
}

// const i64 r1 = ..., r0 = ...
std::string Printer::coordinates(const Walk& w) {
  if (w.sizes.size() < 2) return "";
  std::string text = fmt::format("i64 {}_rest = {};\n", w.linear, w.linear), rest = w.linear + "_rest";
  for (std::size_t d = w.sizes.size(); d-- > 1;) {
    const std::string size = number(fmt::format("{}_size{}", w.linear, d), w.sizes[d]);
    text += fmt::format("const i64 {0}_next{1} = quotient({2}, {3}), {4} = {2} - {0}_next{1} * {3};\n", w.linear, d,
                        rest, size, w.at(d));
    text += fmt::format("{} = {}_next{};\n", rest, w.linear, d);
  }
  return text + fmt::format("const i64 {} = {};\n", w.at(0), rest);
}

std::string Printer::address(const Strides& strides, const std::string& who, const Walk* only) {
  std::string text;
  for (const Walk* w : {&layout_.elements, &layout_.rows, &layout_.columns}) {
    if (only && w != only) continue;
    if (layout_.mapping == Mapping::elements && w == &layout_.columns && !in_finish_) continue;
    if (in_finish_ && w != &layout_.columns) continue;
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

std::string Printer::pointer(const Operand& o, std::int32_t operand) {
  return bound(fmt::format("const {}*", memory_text(o.dtype)), fmt::format("x{}", operand), Parameter::Kind::pointer,
               o.slot, o.offset * static_cast<std::int64_t>(size_of(o.dtype)));
}
std::string Printer::pointer(const Output& o, std::size_t number_of_output) {
  return bound(fmt::format("{}*", memory_text(o.dtype)), fmt::format("y{}", number_of_output), Parameter::Kind::pointer,
               o.slot);
}
// Whether packs of it are accessed whole: "true" or "false".
std::string Printer::aligned(const Strides& strides, DType dtype, const std::string& who) {
  if (alignment_ == Alignment::any || !layout_.may_align(strides, dtype)) return "false";
  out_.parameters[members_.at(who)].aligned = true;
  return "true";
}

std::string Printer::load(std::int32_t operand, RegType type) {
  const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
  const std::string name = fmt::format("x{}", operand);
  switch (o.kind) {
    case Operand::Kind::memory: {
      if (in_leaf_ && layout_.vectors) {
        const bool one = layout_.access(o.strides, o.dtype) == Access::one;
        return loaded(name + (one ? "" : ".at(j)"), o.dtype, type);
      }
      return loaded(fmt::format("{}[{}]", pointer(o, operand), address(o.strides, name)), o.dtype, type);
    }
    case Operand::Kind::constant:
      if (is_real(type))
        return fmt::format("({}){}", type_text(type), bound("f64", name, Parameter::Kind::real, o.slot, 0, o.dtype));
      return converted(bound("i64", name, Parameter::Kind::integer, o.slot, is_mask(type), o.dtype), RegType::i64,
                       type);
    case Operand::Kind::iota: {
      const std::string start = bound("i64", name + "_start", Parameter::Kind::start, o.slot, o.offset);
      const std::string step = bound("i64", name + "_step", Parameter::Kind::step, o.slot);
      if (type == RegType::i32)  // of what wraps the low half does
        return fmt::format("sum((i32){}, product((i32){}, (i32)({})))", start, step, address(o.strides, name));
      return converted(fmt::format("sum({}, product({}, (i64)({})))", start, step, address(o.strides, name)),
                       RegType::i64, type);
    }
    default: {
      const std::string seed = bound("u64", name + "_seed", Parameter::Kind::seed, o.slot);
      const std::string operation = bound("u64", name + "_operation", Parameter::Kind::operation, o.slot);
      const std::string offset = number(name + "_offset", o.offset);
      return fmt::format("uniform_{}({}, {}, (u64)({} + {}))", type == RegType::f64 ? "f64" : "f32", seed, operation,
                         offset, address(o.strides, name));
    }
  }
}

// Is the value a summand and nothing else? Then -0 does for 0, which the compiler knows to leave out.
bool Printer::is_only_added(std::int32_t v) const {
  if (instr(v).type != RegType::f32) return false;
  for (const Output& o : p_.outputs) {
    if (o.value == v) return false;
  }
  return std::all_of(p_.instrs.begin(), p_.instrs.end(), [&](const Instr& i) {
    if (i.kind == Kind::load || std::find(std::begin(i.arg), std::end(i.arg), v) == std::end(i.arg)) return true;
    return i.kind == Kind::compute && i.op == Op::add && i.arg[0] != i.arg[1];
  });
}

// Is v a quotient of the line's elements, and d what all of them, or all of a row, are divided by?
bool Printer::is_quotient_by(std::int32_t v, std::int32_t d) const {
  const Instr& i = instr(v);
  if (i.kind != Kind::compute || i.op != Op::div || i.type != RegType::f32 || i.arg[1] != d || i.level != Level::full)
    return false;
  if (coarse_[static_cast<std::size_t>(v)] || in_epilogue(i)) return false;
  const Level level = instr(d).level;
  return level == Level::scalar || (level == Level::row && layout_.mapping != Mapping::elements);
}

// The value as an expression of other values. Reductions and picks are made elsewhere.
std::string Printer::expression(std::int32_t v) {
  const Instr& i = instr(v);
  const std::int32_t a = i.arg[0], b = i.arg[1], c = i.arg[2];
  switch (i.kind) {
    case Kind::load:
      return load(a, i.type);
    case Kind::convert:
      return converted(name(a), instr(a).type, i.type);
    case Kind::round:
      return rounded(name(a), i.dtype);
    case Kind::place:
      if (!placing_) return is_only_added(v) ? "-0.0f" : fmt::format("({})0", type_text(i.type));
      return fmt::format("col == place{} ? {} : ({})0", v, name(a), type_text(i.type));
    default:
      if (coarse_[static_cast<std::size_t>(v)] && i.type == RegType::f32 && instr(a).type == RegType::f32) {
        if (const char* quick = quick_function(i.op))
          return fmt::format("{}({}{}{})", quick, name(a), b < 0 ? "" : ", ", name(b));
      }
      if (is_quotient_by(v, b)) return fmt::format("quotient_by({}, reciprocal{})", name(a), b);
      return computed(i.op, instr(i.op == Op::where ? b : a).type, name(a), name(b), name(c));
  }
}
std::string Printer::define(std::int32_t v, const std::string& expression) {
  std::string text = fmt::format("const {} {} = {};\n", type_text(instr(v).type), name(v), expression);
  // What elements are made of over and over again.
  bool divides = false, is_exponent = false;
  for (std::int32_t u = 0; u < n_; ++u) {
    divides |= is_quotient_by(u, v);
    is_exponent |= is_power(u) && instr(u).arg[1] == v && instr(v).level == Level::scalar;
  }
  if (divides) text += fmt::format("const f64 reciprocal{} = 1.0 / (f64){};\n", v, name(v));
  if (is_exponent) text += fmt::format("const Exponent exponent{} = kept_exponent({});\n", v, name(v));
  return text;
}

// if (!ok) complain(...), of check v, or of the index of pick or place v.
std::string Printer::check(std::int32_t v, const std::string& position, const std::string& guard) {
  const Instr& i = instr(v);
  const std::string ok =
      i.kind == Kind::compute ? name(i.arg[1]) : fmt::format("((u64){} < (u64)a.columns)", name(i.arg[1]));
  return fmt::format("if ({}!{}) complain(a.error, a.step, {}, {}, bits_of({}));\n", guard, ok, position, number_.at(v),
                     name(i.kind == Kind::compute ? i.arg[0] : i.arg[1]));
}

std::string Printer::store(const Output& o, std::size_t number_of_output) {
  return fmt::format("{}[{}] = {};\n", pointer(o, number_of_output),
                     address(o.strides, fmt::format("y{}", number_of_output)),
                     stored(name(o.value), instr(o.value).type, o.dtype));
}

// `finish` counts its blocks there.
std::string Printer::counter_begins() const {
  return totals_.empty() || sums_of_columns() ? "" : "if (first) a.work[a.counter] = 0;\n";
}

// Values of level scalar that do not come from reductions: the same for all threads.
std::string Printer::scalars(bool complaints) {
  std::string text;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (instr(v).level != Level::scalar || in_epilogue(instr(v))) continue;
    text += define(v);
    if (is_check(v) && complaints) text += check(v, "0", "first && ");
  }
  if (!complaints) return text;
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (i.level == Level::scalar && !in_epilogue(i)) text += "if (first) " + store(p_.outputs[o], o);
  }
  return text;
}

std::string Printer::element_type(std::int32_t v) const {
  return is_real(instr(v).type) ? type_text(instr(v).type) : "i64";
}
// The largest of numbers needs no wider type.
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
  return std::find(totals_.begin(), totals_.end(), v) - totals_.begin();
}
std::ptrdiff_t Printer::sum_number(std::int32_t v) const {
  return std::find(column_sums_.begin(), column_sums_.end(), v) - column_sums_.begin();
}

std::string Printer::head(const char* kernel, const std::string& bounds) const {
  return fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const Args a) {{\n", bounds, kernel) +
         (in_finish_ ? "  wait_for_sweep();\n" : "") + "  const bool first = blockIdx.x == 0 && threadIdx.x == 0;\n";
}

SweepText print_sweep(const Program& program, const GpuLimits& limits, Alignment alignment) {
  return Printer(program, limits, alignment).run();
}

}  // namespace ebb::cuda
