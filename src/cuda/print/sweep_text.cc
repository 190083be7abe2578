#include "cuda/print/sweep_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/format_error.h"
#include "cuda/print/expression.h"
#include "cuda/print/space.h"

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

constexpr std::int64_t kSegment = 8192;   // elements that a block adds at once
constexpr std::int64_t kShortRow = 1024;  // up to here a warp takes a row
constexpr std::int64_t kMostBlocks = 4096;
constexpr std::int64_t kMostGroups = 64;   // of rows, for reductions over them
constexpr std::int64_t kRowsOfGroup = 32;  // at least

std::int64_t pieces(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
unsigned blocks_for(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, kMostBlocks)); }

bool has_kind(const Program& p, Kind kind) {
  return std::any_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& i) { return i.kind == kind; });
}
bool has_full(const Program& p) {
  return std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) { return i.level == Level::full; });
}

class Printer {
 public:
  explicit Printer(const Program& program) : p_(program), n_(static_cast<std::int32_t>(program.instrs.size())) {
    const int dims = static_cast<int>(p_.dims.size()), row_dims = dims - p_.row_dims;
    mapping_ = mapping_of(p_);
    full_ = has_full(p_);
    if (mapping_ == Mapping::elements) {
      elements_ = make_walk(p_, 0, full_ ? dims : row_dims, "e", "e");
    } else {
      rows_ = make_walk(p_, 0, row_dims, "row", "r");
    }
    columns_ = make_walk(p_, row_dims, dims, "col", "c");
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

  SweepText run() {
    sizes();
    std::string kernels = mapping_ == Mapping::elements ? element_kernel() : row_kernel();
    if (ends_later()) kernels += finish_kernel();
    out_.text = "struct Args {\n" + fields_ + "};\n" + kernels;
    return std::move(out_);
  }

 private:
  const Instr& instr(std::int32_t v) const { return p_.instrs[static_cast<std::size_t>(v)]; }
  bool in_epilogue(const Instr& i) const {
    return i.stage >= p_.stages || i.kind == Kind::total || i.kind == Kind::columns || i.level == Level::column;
  }
  bool ends_later() const {
    return std::any_of(p_.instrs.begin(), p_.instrs.end(), [&](const Instr& i) { return in_epilogue(i); });
  }

  // Members of Args. Each is there once, however many kernels use it.
  std::string member(const std::string& type, const std::string& name, const Parameter& parameter) {
    if (members_.emplace(name, true).second) {
      fields_ += fmt::format("  {} {};\n", type, name);
      out_.parameters.push_back(parameter);
    }
    return "a." + name;
  }
  std::string number(const std::string& name, std::int64_t value) {
    return member("i64", name, {Parameter::Kind::number, -1, value, {}});
  }
  std::string bound(const std::string& type, const std::string& name, Parameter::Kind kind, int slot,
                    std::int64_t extra = 0, DType dtype = DType::f32) {
    return member(type, name, {kind, slot, extra, dtype});
  }

  void sizes() {
    const std::int64_t rows = p_.rows(), columns = p_.columns();
    columns_text_ = number("columns", columns);
    if (mapping_ == Mapping::elements) {
      const std::int64_t n = full_ ? rows * columns : rows;
      count_text_ = number("n", n);
      parts_ = pieces(n, kSegment);
      out_.blocks = blocks_for(totals_.empty() ? pieces(n, kThreads) : parts_);
    } else {
      count_text_ = number("rows", rows);
      parts_ = rows;
      out_.blocks = blocks_for(mapping_ == Mapping::warp_per_row ? pieces(rows, kThreads / 32) : rows);
    }
    if (mapping_ == Mapping::row_groups) {
      groups_ = std::min(kMostGroups, pieces(rows, kRowsOfGroup));
      group_rows_ = groups_ ? pieces(rows, groups_) : 1;
      groups_ = pieces(rows, group_rows_);
      out_.blocks = blocks_for(groups_);
    }
    std::int64_t words = 0;
    if (!totals_.empty()) {
      number("parts", parts_);
      words += static_cast<std::int64_t>(totals_.size()) * parts_;
    }
    if (!column_sums_.empty()) {
      number("sums", words);  // where they begin
      number("groups", groups_);
      number("group_rows", group_rows_);
      words += static_cast<std::int64_t>(column_sums_.size()) * groups_ * columns;
    }
    if (words || !totals_.empty() || !column_sums_.empty())
      member("u64*", "work", {Parameter::Kind::workspace, -1, 0, {}});
    out_.workspace = static_cast<std::size_t>(words) * sizeof(std::uint64_t);
    if (!out_.checks.empty()) {
      member("ErrorSlot*", "error", {Parameter::Kind::error, -1, 0, {}});
      member("i64", "step", {Parameter::Kind::error_step, -1, 0, {}});
    }
    if (ends_later()) {
      const bool wide =
          std::any_of(p_.instrs.begin(), p_.instrs.end(), [](const Instr& i) { return i.level == Level::column; });
      out_.finish_blocks = wide ? blocks_for(pieces(columns, kThreads)) : 1;
    }
  }

  // const i64 r1 = ..., r0 = ...
  std::string coordinates(const Walk& w, const std::string& indent) {
    if (w.sizes.size() < 2) return "";
    std::string text = fmt::format("{}i64 {}_rest = {};\n", indent, w.linear, w.linear), rest = w.linear + "_rest";
    for (std::size_t d = w.sizes.size(); d-- > 1;) {
      const std::string size = number(fmt::format("{}_size{}", w.linear, d), w.sizes[d]);
      text += fmt::format("{0}const i64 {1}_next{2} = quotient({3}, {4}), {5} = {3} - {1}_next{2} * {4};\n", indent,
                          w.linear, d, rest, size, w.at(d));
      text += fmt::format("{}{} = {}_next{};\n", indent, rest, w.linear, d);
    }
    return text + fmt::format("{}const i64 {} = {};\n", indent, w.at(0), rest);
  }

  // Where the element of these strides lies; `who` names them.
  std::string address(const Strides& strides, const std::string& who) {
    std::string text;
    for (const Walk* w : {&elements_, &rows_, &columns_}) {
      if (mapping_ == Mapping::elements && w == &columns_ && !in_finish_) continue;
      if (in_finish_ && w != &columns_) continue;
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

  std::string load(std::int32_t operand, RegType type) {
    const Operand& o = p_.operands[static_cast<std::size_t>(operand)];
    const std::string name = fmt::format("x{}", operand);
    switch (o.kind) {
      case Operand::Kind::memory: {
        const std::string element = memory_text(o.dtype);
        const std::string data = bound("const " + element + "*", name, Parameter::Kind::pointer, o.slot,
                                       o.offset * static_cast<std::int64_t>(size_of(o.dtype)));
        return loaded(fmt::format("{}[{}]", data, address(o.strides, name)), o.dtype, type);
      }
      case Operand::Kind::constant:
        if (is_real(type))
          return fmt::format("({}){}", type_text(type), bound("f64", name, Parameter::Kind::real, o.slot, 0, o.dtype));
        return converted(bound("i64", name, Parameter::Kind::integer, o.slot, is_mask(type), o.dtype), RegType::i64,
                         type);
      case Operand::Kind::iota: {
        const std::string start = bound("i64", name + "_start", Parameter::Kind::start, o.slot, o.offset);
        const std::string step = bound("i64", name + "_step", Parameter::Kind::step, o.slot);
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

  static std::string name(std::int32_t v) { return v < 0 ? "" : fmt::format("v{}", v); }

  // The value as an expression of other values. Reductions and picks are made elsewhere.
  std::string expression(const Instr& i) {
    const std::int32_t a = i.arg[0], b = i.arg[1], c = i.arg[2];
    switch (i.kind) {
      case Kind::load:
        return load(a, i.type);
      case Kind::convert:
        return converted(name(a), instr(a).type, i.type);
      case Kind::round:
        return rounded(name(a), i.dtype);
      case Kind::place:
        return fmt::format("{} == {} ? {} : ({})0", "col", name(b), name(a), type_text(i.type));
      default:
        return computed(i.op, instr(i.op == Op::where ? b : a).type, name(a), name(b), name(c));
    }
  }
  std::string define(std::int32_t v, const std::string& expression) {
    return fmt::format("const {} {} = {};\n", type_text(instr(v).type), name(v), expression);
  }
  std::string define(std::int32_t v) { return define(v, expression(instr(v))); }

  // if (!ok) complain(...), of check v, or of the index of pick or place v.
  std::string check(std::int32_t v, const std::string& position, const std::string& guard = "") {
    const Instr& i = instr(v);
    const std::string ok =
        i.kind == Kind::compute ? name(i.arg[1]) : fmt::format("((u64){} < (u64){})", name(i.arg[1]), columns_text_);
    return fmt::format("if ({}!{}) complain(a.error, a.step, {}, {}, bits_of({}));\n", guard, ok, position,
                       number_.at(v), name(i.kind == Kind::compute ? i.arg[0] : i.arg[1]));
  }
  bool is_check(std::int32_t v) const { return instr(v).kind == Kind::compute && instr(v).op == Op::check; }

  std::string store(const Output& o, std::size_t number_of_output) {
    const std::string who = fmt::format("y{}", number_of_output);
    const std::string data = bound(fmt::format("{}*", memory_text(o.dtype)), who, Parameter::Kind::pointer, o.slot);
    return fmt::format("{}[{}] = {};\n", data, address(o.strides, who),
                       stored(name(o.value), instr(o.value).type, o.dtype));
  }

  // Values of level scalar that do not come from reductions: the same for all threads.
  std::string scalars(const std::string& indent, bool complaints) {
    std::string text;
    for (std::int32_t v = 0; v < n_; ++v) {
      if (instr(v).level != Level::scalar || in_epilogue(instr(v))) continue;
      text += indent + define(v);
      if (is_check(v) && complaints) text += indent + check(v, "0", "first && ");
    }
    if (!complaints) return text;
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      const Instr& i = instr(p_.outputs[o].value);
      if (i.level == Level::scalar && !in_epilogue(i)) text += indent + "if (first) " + store(p_.outputs[o], o);
    }
    return text;
  }

  // Marks what v is made of among values of level full.
  void need(std::int32_t v, std::vector<char>& needed) const {
    if (v < 0 || instr(v).level != Level::full || needed[static_cast<std::size_t>(v)]) return;
    needed[static_cast<std::size_t>(v)] = 1;
    if (instr(v).kind == Kind::load) return;
    for (const std::int32_t a : instr(v).arg) need(a, needed);
  }

  // Args of the reduction of v: "Plus, f32, f64".
  std::string reduction_types(std::int32_t v) const {
    const RegType t = instr(v).type;
    return fmt::format("{}, {}, {}", reduction_text(instr(v).op), is_real(t) ? type_text(t) : "i64", wide_text(t));
  }
  std::string element_of_reduction(std::int32_t v) const {
    const Instr& i = instr(v);
    return is_real(i.type) ? converted(name(i.arg[0]), instr(i.arg[0]).type, i.type)
                           : fmt::format("(i64){}", name(i.arg[0]));
  }
  std::string nothing(std::int32_t v) const {
    const RegType t = instr(v).type;
    return fmt::format("{}::nothing<{}>()", reduction_text(instr(v).op), is_real(t) ? type_text(t) : "i64");
  }

  // Elements from `base` on, as the tree of sums wants them; `body` is for one of them, named `linear`.
  std::string leaf_loop(const std::vector<std::int32_t>& reductions, const std::string& linear,
                        const std::string& count, const std::string& body, const std::string& indent) {
    const bool one_warp = mapping_ == Mapping::warp_per_row;
    std::string in = indent, text;
    if (one_warp) {
      text += in + "for (int w = 0; w < 8; ++w) {\n";
      in += "  ";
    }
    text += fmt::format("{}for (int k = 0; k < 4; ++k) {{\n", in);
    text += fmt::format("{}  const i64 leaf = base + k * 2048 + {} * 8;\n", in,
                        one_warp ? "(w * 32 + lane)" : "(int)threadIdx.x");
    text += fmt::format("{}  if (leaf >= {}) break;\n", in, count);
    text += fmt::format("{}  for (int j = 0; j < 8; ++j) {{\n", in);
    text += fmt::format("{}    const i64 {} = leaf + j;\n", in, linear);
    for (const std::int32_t v : reductions)
      text += fmt::format("{}    {} part{} = {};\n", in, is_real(instr(v).type) ? type_text(instr(v).type) : "i64", v,
                          nothing(v));
    text += fmt::format("{}    if ({} < {}) {{\n", in, linear, count);
    text += indented(body, in + "      ");
    for (const std::int32_t v : reductions)
      text += fmt::format("{}      part{} = {};\n", in, v, element_of_reduction(v));
    text += in + "    }\n";
    for (const std::int32_t v : reductions) text += fmt::format("{}    sum{}.add(j, part{});\n", in, v, v);
    text += in + "  }\n" + in + "}\n";
    for (const std::int32_t v : reductions) text += fmt::format("{}sum{}.end_warp();\n", in, v);
    if (one_warp) {
      in = indent;
      text += in + "}\n";
    }
    for (const std::int32_t v : reductions)
      text += fmt::format("{}sum{}.{};\n", in, v, one_warp ? "segment_of_warp()" : "segment_of_block(shared)");
    return text;
  }

  static std::string indented(const std::string& text, const std::string& indent) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      out += indent + text.substr(at, end - at + 1);
      at = end + 1;
    }
    return out;
  }

  std::string kernel_head(const char* kernel, bool shares) const {
    std::string text =
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const Args a) {{\n", kThreads, kernel);
    if (shares) text += fmt::format("  __shared__ u64 shared[{}];\n", kThreads);
    return text + "  const bool first = blockIdx.x == 0 && threadIdx.x == 0;\n";
  }

  std::string element_kernel() {
    std::string text = kernel_head("sweep", !totals_.empty()) + scalars("  ", true);
    std::string body = coordinates(elements_, "");
    for (std::int32_t v = 0; v < n_; ++v) {
      const Instr& i = instr(v);
      if (i.level == Level::scalar || in_epilogue(i)) continue;
      body += define(v);
      if (!is_check(v)) continue;
      body += check(v, full_ && i.level == Level::row ? "quotient(e, " + columns_text_ + ")" : "e");
    }
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      const Instr& i = instr(p_.outputs[o].value);
      if (in_epilogue(i) || i.level == Level::scalar) continue;
      if (full_ && i.level == Level::row) body += fmt::format("if (e == quotient(e, {0}) * {0}) ", columns_text_);
      body += store(p_.outputs[o], o);
    }
    if (totals_.empty()) {
      text +=
          fmt::format("  for (i64 e = (i64)blockIdx.x * {0} + threadIdx.x; e < {1}; e += (i64)gridDim.x * {0}) {{\n",
                      kThreads, count_text_);
      return text + indented(body, "    ") + "  }\n}\n";
    }
    text += "  for (i64 part = blockIdx.x; part < a.parts; part += gridDim.x) {\n";
    text += fmt::format("    const i64 base = part * {};\n", kSegment);
    for (const std::int32_t v : totals_) text += fmt::format("    Reduction<{}> sum{};\n", reduction_types(v), v);
    text += leaf_loop(totals_, "e", count_text_, body, "    ");
    for (std::size_t t = 0; t < totals_.size(); ++t)
      text +=
          fmt::format("    if (threadIdx.x == 0) a.work[{} * a.parts + part] = bits_of(sum{}.all);\n", t, totals_[t]);
    return text + "  }\n}\n";
  }

  // What a stage's pass over the columns of a row makes.
  struct Pass {
    std::vector<std::int32_t> reductions;  // also totals of full values
    std::vector<std::int32_t> sums;        // over the rows
    std::vector<std::size_t> outputs;
    std::vector<std::int32_t> checks;
    bool empty() const { return reductions.empty() && sums.empty() && outputs.empty() && checks.empty(); }
  };
  Pass pass_of(int stage) const {
    Pass pass;
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
    return pass;
  }

  // Everything the pass needs for one element, from its inputs: nothing is kept between stages.
  std::string pass_body(const Pass& pass) {
    std::vector<char> needed(static_cast<std::size_t>(n_));
    for (const std::int32_t v : pass.reductions) need(instr(v).arg[0], needed);
    for (const std::int32_t v : pass.sums) need(instr(v).arg[0], needed);
    for (const std::int32_t v : pass.checks) {
      need(v, needed);
      need(instr(v).arg[1], needed);
    }
    for (const std::size_t o : pass.outputs) need(p_.outputs[o].value, needed);
    std::string body = coordinates(columns_, "");
    for (std::int32_t v = 0; v < n_; ++v) {
      if (!needed[static_cast<std::size_t>(v)]) continue;
      body += define(v);
      if (std::find(pass.checks.begin(), pass.checks.end(), v) != pass.checks.end())
        body += check(v, fmt::format("row * {} + col", columns_text_));
    }
    for (const std::size_t o : pass.outputs) body += store(p_.outputs[o], o);
    for (const std::int32_t v : pass.sums) {
      const auto c = std::find(column_sums_.begin(), column_sums_.end(), v) - column_sums_.begin();
      const std::string x = fmt::format("({}){}", wide_text(instr(v).type), element_of_reduction(v));
      body += fmt::format("u64* const at{} = a.work + a.sums + ({} * a.groups + group) * a.columns + col;\n", v, c);
      body += fmt::format(
          "*at{0} = bits_of(row == group * a.group_rows ? {1} : {2}::of(from_bits(({3})0, *at{0}), {1}));\n", v, x,
          reduction_text(instr(v).op), wide_text(instr(v).type));
    }
    return body;
  }

  std::string row_pass(int stage) {
    const Pass pass = pass_of(stage);
    if (pass.empty()) return "";
    const std::string body = pass_body(pass);
    if (pass.reductions.empty()) {  // neighbours to neighbouring threads
      const bool warp = mapping_ == Mapping::warp_per_row;
      return fmt::format("for (i64 col = {0}; col < {2}; col += {1}) {{\n", warp ? "lane" : "(int)threadIdx.x",
                         warp ? 32 : kThreads, columns_text_) +
             indented(body, "  ") + "}\n";
    }
    std::string text;
    for (const std::int32_t v : pass.reductions) text += fmt::format("Reduction<{}> sum{};\n", reduction_types(v), v);
    text += fmt::format("for (i64 base = 0; base < {}; base += {}) {{\n", columns_text_, kSegment);
    text += leaf_loop(pass.reductions, "col", columns_text_, body, "  ");
    text += "}\n";
    for (const std::int32_t v : pass.reductions) {
      if (mapping_ != Mapping::warp_per_row) text += fmt::format("sum{}.end_row(shared);\n", v);
      if (instr(v).kind == Kind::reduce) {
        text += define(v, narrowed(v, fmt::format("sum{}.all", v)));
      } else {
        text += fmt::format("if (lead) a.work[{} * a.parts + row] = bits_of(sum{}.all);\n", total_number(v), v);
      }
    }
    return text;
  }
  std::string narrowed(std::int32_t v, const std::string& wide) const {
    const RegType t = instr(v).type;
    return converted(wide, is_real(t) ? RegType::f64 : RegType::i64, t);
  }
  std::ptrdiff_t total_number(std::int32_t v) const {
    return std::find(totals_.begin(), totals_.end(), v) - totals_.begin();
  }

  // Values one a row, of one stage, before its pass; those of reductions come with the pass.
  std::string row_values(int stage) {
    std::string text;
    for (std::int32_t v = 0; v < n_; ++v) {
      const Instr& i = instr(v);
      if (i.kind == Kind::place && i.stage == stage) text += check(v, "row", "lead && ");
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
  std::string pick(std::int32_t v) {
    const Instr& i = instr(v);
    std::vector<char> needed(static_cast<std::size_t>(n_));
    need(i.arg[0], needed);
    std::string text = check(v, "row", "lead && ");
    text += fmt::format("{} {} = 0;\n", type_text(i.type), name(v));
    text += fmt::format("if ((u64){} < (u64){}) {{\n", name(i.arg[1]), columns_text_);
    text += fmt::format("  const i64 col = {};\n", name(i.arg[1]));
    text += coordinates(columns_, "  ");
    for (std::int32_t u = 0; u < n_; ++u) {
      if (needed[static_cast<std::size_t>(u)]) text += "  " + define(u);
    }
    return text + fmt::format("  {} = {};\n}}\n", name(v), name(i.arg[0]));
  }

  std::string row_kernel() {
    const bool warp = mapping_ == Mapping::warp_per_row;
    std::string text = kernel_head("sweep", !warp) + scalars("  ", true);
    std::string indent = "    ";
    if (warp) {
      text += "  const int lane = threadIdx.x & 31;\n  const bool lead = lane == 0;\n";
      text += "  for (i64 row = (i64)blockIdx.x * 8 + (threadIdx.x >> 5); row < a.rows; row += (i64)gridDim.x * 8) {\n";
    } else {
      text += "  const bool lead = threadIdx.x == 0;\n";
      if (mapping_ == Mapping::row_groups) {
        text += "  for (i64 group = blockIdx.x; group < a.groups; group += gridDim.x) {\n";
        text += "  for (i64 row = group * a.group_rows; row < a.rows && row < (group + 1) * a.group_rows; ++row) {\n";
      } else {
        text += "  for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {\n";
      }
    }
    text += coordinates(rows_, indent);
    for (int stage = 0; stage < p_.stages; ++stage) {
      text += fmt::format("{}// stage {}\n", indent, stage);
      text += indented(row_values(stage), indent) + indented(row_pass(stage), indent);
    }
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      const Instr& i = instr(p_.outputs[o].value);
      if (i.level == Level::row && !in_epilogue(i)) text += indent + "if (lead) " + store(p_.outputs[o], o);
    }
    for (const std::int32_t v : totals_) {  // one that does not vary along the row counts once a row
      if (instr(instr(v).arg[0]).level == Level::full) continue;
      text += fmt::format("{}if (lead) a.work[{} * a.parts + row] = bits_of(({}){});\n", indent, total_number(v),
                          wide_text(instr(v).type), element_of_reduction(v));
    }
    text += "  }\n";
    if (mapping_ == Mapping::row_groups) text += "  }\n";
    return text + "}\n";
  }

  std::string finish_kernel() {
    in_finish_ = true;
    std::string text = kernel_head("finish", true) + scalars("  ", false);
    for (std::int32_t v = 0; v < n_; ++v) {
      const Instr& i = instr(v);
      if (i.kind == Kind::total) {
        text += "  " + define(v, narrowed(v, fmt::format("over_parts<{}, {}>(a.work + {} * a.parts, a.parts, shared)",
                                                         reduction_text(i.op), wide_text(i.type), total_number(v))));
      } else if (i.level == Level::scalar && in_epilogue(i)) {
        text += "  " + define(v);
        if (is_check(v)) text += "  " + check(v, "0", "first && ");
      }
    }
    std::string columns;
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      const Instr& i = instr(p_.outputs[o].value);
      if (!in_epilogue(i)) continue;
      if (i.level == Level::scalar) text += "  if (first) " + store(p_.outputs[o], o);
    }
    const bool wide =
        std::any_of(p_.instrs.begin(), p_.instrs.end(), [](const Instr& i) { return i.level == Level::column; });
    if (!wide) return text + "}\n";
    columns += coordinates(columns_, "");
    for (std::int32_t v = 0; v < n_; ++v) {
      const Instr& i = instr(v);
      if (i.level != Level::column) continue;
      if (i.kind == Kind::columns) {
        const auto c = std::find(column_sums_.begin(), column_sums_.end(), v) - column_sums_.begin();
        const std::string op = reduction_text(i.op), w = wide_text(i.type);
        columns += fmt::format("{0} sum{1} = {2}::nothing<{0}>();\n", w, v, op);
        columns += fmt::format(
            "for (i64 g = 0; g < a.groups; ++g) sum{0} = {1}::of(sum{0}, from_bits(sum{0}, "
            "a.work[a.sums + ({2} * a.groups + g) * a.columns + col]));\n",
            v, op, c);
        columns += define(v, narrowed(v, fmt::format("sum{}", v)));
      } else {
        columns += define(v);
        if (is_check(v)) columns += check(v, "col");
      }
    }
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      if (instr(p_.outputs[o].value).level == Level::column) columns += store(p_.outputs[o], o);
    }
    text += fmt::format(
        "  for (i64 col = (i64)blockIdx.x * {0} + threadIdx.x; col < {1}; col += (i64)gridDim.x * {0}) {{\n", kThreads,
        columns_text_);
    return text + indented(columns, "    ") + "  }\n}\n";
  }

  const Program& p_;
  const std::int32_t n_;
  Mapping mapping_;
  bool full_ = false, in_finish_ = false;
  Walk elements_, rows_, columns_;
  SweepText out_;
  std::string fields_, columns_text_, count_text_;
  std::map<std::string, bool> members_;
  std::map<std::int32_t, int> number_;  // of checks
  std::vector<std::int32_t> totals_, column_sums_;
  std::int64_t parts_ = 0, groups_ = 0, group_rows_ = 1;
};

}  // namespace

Mapping mapping_of(const Program& p) {
  if (has_kind(p, Kind::columns)) return Mapping::row_groups;
  bool by_rows = has_kind(p, Kind::reduce) || has_kind(p, Kind::pick) || has_kind(p, Kind::place);
  if (has_full(p)) {
    // A thread per element reaches every row only where rows have elements, and counts rows as often as they have.
    for (const Instr& i : p.instrs) {
      by_rows |= i.kind == Kind::total && p.instrs[static_cast<std::size_t>(i.arg[0])].level != Level::full;
    }
    by_rows |= p.columns() == 0;
  }
  if (!by_rows) return Mapping::elements;
  return p.columns() <= kShortRow ? Mapping::warp_per_row : Mapping::block_per_row;
}

SweepText print_sweep(const Program& program) { return Printer(program).run(); }

}  // namespace ebb::cuda
