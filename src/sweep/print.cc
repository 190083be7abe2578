// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "core/format_error.h"
#include "sweep/program.h"

namespace ebb {
namespace {

const char* type_name(RegType t) {
  static constexpr const char* kNames[] = {"f32", "f64", "i32", "i64", "m32", "m64"};
  return kNames[static_cast<int>(t)];
}

const char* level_name(Level l) {
  static constexpr const char* kNames[] = {"scalar", "row", "column", "full"};
  return kNames[static_cast<int>(l)];
}

std::string sizes(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to) {
  std::string s = "[";
  for (std::size_t i = from; i < to; ++i) s += fmt::format("{}{}", i > from ? ", " : "", dims[i]);
  return s + "]";
}

std::string strides_text(const Program& p, const Strides& s) {
  std::string text = "[";
  for (std::size_t d = 0; d < p.dims.size(); ++d) text += fmt::format("{}{}", d ? ", " : "", s[static_cast<int>(d)]);
  return text + "]";
}

}  // namespace

std::int64_t Program::rows() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d + static_cast<std::size_t>(row_dims) < dims.size(); ++d) n *= dims[d];
  return n;
}

std::int64_t Program::columns() const {
  std::int64_t n = 1;
  for (std::size_t d = dims.size() - static_cast<std::size_t>(row_dims); d < dims.size(); ++d) n *= dims[d];
  return n;
}

std::string print(const Program& p) {
  const std::size_t rows = p.dims.size() - static_cast<std::size_t>(p.row_dims);
  std::string text = fmt::format("sweep {} x {}\n", sizes(p.dims, 0, rows), sizes(p.dims, rows, p.dims.size()));
  for (int stage = 0; stage <= p.stages; ++stage) {
    bool any = false;
    for (std::size_t v = 0; v < p.instrs.size(); ++v) {
      const Instr& i = p.instrs[v];
      if (i.stage != stage) continue;
      if (!any && p.stages + (stage == p.stages) > 1)
        text += stage == p.stages ? "  epilogue\n" : fmt::format("  stage {}\n", stage);
      any = true;
      std::string what;
      switch (i.kind) {
        case Instr::Kind::load: {
          const Operand& o = p.operands[i.arg[0]];
          static constexpr const char* kKinds[] = {"load", "constant", "iota", "random"};
          what = fmt::format("{} #{} {}", kKinds[static_cast<int>(o.kind)], o.slot, name(o.dtype));
          if (o.kind != Operand::Kind::constant) what += " " + strides_text(p, o.strides);
          if (o.offset) what += fmt::format(" + {}", o.offset);
          break;
        }
        case Instr::Kind::compute:
          what = info(i.op).name;
          break;
        case Instr::Kind::convert:
          what = "convert";
          break;
        case Instr::Kind::round:
          what = fmt::format("round {}", name(i.dtype));
          break;
        case Instr::Kind::reduce:
          what = fmt::format("row {}", info(i.op).name);
          break;
        case Instr::Kind::total:
          what = fmt::format("total {}", info(i.op).name);
          break;
        case Instr::Kind::columns:
          what = fmt::format("columns {}", info(i.op).name);
          break;
        case Instr::Kind::pick:
          what = "pick";
          break;
        case Instr::Kind::place:
          what = "place";
          break;
      }
      if (i.kind != Instr::Kind::load) {
        for (std::int32_t a : i.arg) {
          if (a >= 0) what += fmt::format(" %{}", a);
        }
      }
      text += fmt::format("    %{:<3} {} {:<6} = {}\n", v, type_name(i.type), level_name(i.level), what);
    }
  }
  for (const Output& o : p.outputs) {
    text += fmt::format("  store #{} {} {} = %{}\n", o.slot, name(o.dtype), strides_text(p, o.strides), o.value);
  }
  return text;
}

std::string position_text(const Program& p, std::size_t from, std::size_t to, std::int64_t linear, std::int64_t first) {
  std::vector<std::int64_t> index(p.dims.size()), shown;
  for (std::size_t d = to; d-- > from;) {
    index[d] = linear % p.dims[d];
    linear /= p.dims[d];
  }
  if (from == 0 && to > 0) index[0] += first;
  for (std::size_t k = 0; k < p.dims.size(); ++k) {
    const std::size_t d = p.named.empty() ? k : static_cast<std::size_t>(p.named[k]);
    if (d >= from && d < to) shown.push_back(index[d]);
  }
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

Error check_error(const Instr& check, const std::string& position, const std::string& number) {
  const char* const label = check.label ? check.label : "check";
  if (check.of_index)
    return Error(Error::Kind::index,
                 fmt::format("{}{} = {} is outside [{}, {})", label, position, number, check.from, check.to));
  const std::string which = position.empty() ? "it" : "the element at " + position;
  return Error(fmt::format("{}, but {} is {}", label, which, number));
}

void verify(const Program& p) {
  const auto n = static_cast<std::int32_t>(p.instrs.size());
  for (std::int32_t v = 0; v < n; ++v) {
    const Instr& i = p.instrs[v];
    if (i.kind == Instr::Kind::load) {
      require(i.arg[0] >= 0 && i.arg[0] < static_cast<std::int32_t>(p.operands.size()),
              "internal: sweep value {} loads operand {} of {}", v, i.arg[0], p.operands.size());
      continue;
    }
    for (std::int32_t a : i.arg) {
      if (a < 0) continue;
      require(a < v, "internal: sweep value {} uses value {} that comes later", v, a);
      const Instr& from = p.instrs[a];
      const bool ends = from.kind == Instr::Kind::reduce || from.kind == Instr::Kind::pick;
      // The text is made only on failure: programs are verified often and can be long.
      if (i.stage < from.stage + (ends ? 1 : 0) && i.stage != p.stages) {
        fail(Error::Kind::value, "internal: sweep value {} in stage {} uses value {} of stage {}\n{}", v, i.stage, a,
             from.stage, print(p));
      }
      const bool narrows = i.kind == Instr::Kind::reduce || i.kind == Instr::Kind::pick ||
                           i.kind == Instr::Kind::total || i.kind == Instr::Kind::columns;
      if (!narrows && static_cast<int>(from.level) > static_cast<int>(i.level)) {
        fail(Error::Kind::value, "internal: sweep value {} is {} but uses the {} value {}\n{}", v, level_name(i.level),
             level_name(from.level), a, print(p));
      }
    }
  }
  for (const Output& o : p.outputs) {
    require(o.value >= 0 && o.value < n, "internal: a sweep stores value {} of {}", o.value, n);
  }
}

}  // namespace ebb
