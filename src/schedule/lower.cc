// SPDX-License-Identifier: MIT
#include "schedule/lower.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "core/format_error.h"

namespace ebb {
namespace {

RegType mask_like(RegType t) { return size_of(t) == 4 ? RegType::m32 : RegType::m64; }
bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }

class Lowering {
 public:
  Lowering(const ValueGraph& graph, const Fusion& fusion, int group)
      : g_(graph), f_(fusion), group_(fusion.groups[group]), id_(group) {}

  LoweredSweep run() {
    order_axes();
    for (std::int32_t v : group_.members) emit(v);
    for (std::int32_t v : group_.members) {
      if (f_.places[v].in_memory) add_output(v);
    }
    assign_stages();
    p_.slots = static_cast<int>(out_.inputs.size() + out_.outputs.size());
    for (Output& o : p_.outputs) o.slot += static_cast<int>(out_.inputs.size());
    verify(p_);
    return std::move(out_);
  }

 private:
  const Value& value(std::int32_t v) const { return g_.values[v]; }
  bool inside(std::int32_t v) const {
    return f_.places[g_.base(v)].group == id_ && (!value(v).is_view() || value(v).mappable);
  }

  // Rows before columns; inside each, in the memory order of the widest value, so that the innermost axis is dense.
  void order_axes() {
    const int n = static_cast<int>(group_.axes.size());
    std::vector<std::int64_t> step(n, 0);
    auto use = [&](const Shape& shape, const AxisMap& map, const Strides& strides) {
      for (int d = 0; d < shape.rank(); ++d) {
        if (map[d] >= 0) step[map[d]] = std::abs(strides[d]);
      }
    };
    bool found = false;
    for (std::int32_t v : group_.members) {
      const Placement& p = f_.places[v];
      if (p.in_memory && p.post == Post::no && p.varies == group_.all() && !found) {
        use(value(v).shape, p.map, strides_of(value(v)));
        found = true;
      }
    }
    for (std::int32_t v : group_.members) {
      if (found) break;
      const Placement& p = f_.places[v];
      for (std::int32_t in : value(v).inputs) {
        if (inside(in) || found || value(in).shape.numel() <= 1) continue;
        const bool reads = info(value(v).op).cls == OpClass::reduce || value(v).op == Op::pick;
        use(value(in).shape, reads ? p.operand_map : p.map, strides_of(value(in)));
        found = std::all_of(step.begin(), step.end(), [](std::int64_t s) { return s != 0; });
      }
    }
    std::vector<int> order(n);
    for (int a = 0; a < n; ++a) order[a] = a;
    const std::uint32_t rows = group_.rows == SweepGroup::kUndecided ? group_.all() : group_.rows;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const bool ra = rows >> a & 1, rb = rows >> b & 1;
      return ra != rb ? ra : step[a] > step[b];
    });
    position_.resize(n);
    if (!std::is_sorted(order.begin(), order.end())) {
      p_.named.resize(n);
      for (int i = 0; i < n; ++i) p_.named[order[i]] = i;
    }
    for (int i = 0; i < n; ++i) {
      position_[order[i]] = i;
      p_.dims.push_back(group_.axes[order[i]]);
    }
    for (int a = 0; a < n; ++a) p_.row_dims += !(rows >> a & 1);
  }

  Level level(const Placement& p) const {
    if (p.post == Post::scalar) return Level::scalar;
    if (p.post == Post::column) return Level::column;
    if (group_.rows == 0) return p.varies == 0 ? Level::row : Level::full;
    if (p.varies == 0) return Level::scalar;
    return p.varies == group_.rows ? Level::row : Level::full;
  }

  std::int32_t push(const Instr& i) {
    p_.instrs.push_back(i);
    return static_cast<std::int32_t>(p_.instrs.size()) - 1;
  }

  // A value of this sweep's members, or of memory seen through `map`.
  std::int32_t operand(std::int32_t in, const AxisMap& map, Level user) {
    if (inside(in)) return made_.at(g_.base(in));
    return load(in, map, user);
  }

  std::int32_t load(std::int32_t in, const AxisMap& map, Level user) {
    const Value& x = value(in);
    Operand o;
    o.dtype = x.dtype;
    o.offset = x.is_view() ? x.offset : 0;
    const Strides s = strides_of(x);
    std::uint32_t varies = 0;
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (map[d] < 0 || x.shape[d] == 1 || s[d] == 0) continue;
      o.strides[position_[map[d]]] = s[d];
      varies |= 1u << map[d];
    }
    const Value& b = value(g_.base(in));
    o.kind = b.op == Op::constant && (b.is_leaf || b.node < 0) ? Operand::Kind::constant
             : b.op == Op::iota && b.is_leaf                   ? Operand::Kind::iota
             : b.op == Op::random_uniform && b.is_leaf         ? Operand::Kind::random
                                                               : Operand::Kind::memory;
    const std::uint32_t rows = group_.rows == SweepGroup::kUndecided ? group_.all() : group_.rows;
    o.level = varies == 0                                                      ? Level::scalar
              : user == Level::column                                          ? Level::column
              : group_.rows != SweepGroup::kUndecided && (varies & ~rows) == 0 ? Level::row
                                                                               : Level::full;
    const bool uniform = o.kind == Operand::Kind::constant;  // however it is viewed
    std::vector<std::int64_t> key{uniform ? g_.base(in) : in, static_cast<std::int64_t>(o.level)};
    for (std::size_t a = 0; a < p_.dims.size(); ++a) key.push_back(o.strides[static_cast<int>(a)]);
    auto [it, fresh] = loads_.try_emplace(std::move(key), -1);
    if (!fresh) return it->second;
    const std::int32_t bound = g_.base(in);
    auto [slot, fresh_slot] = slots_.try_emplace(bound, static_cast<int>(out_.inputs.size()));
    if (fresh_slot) out_.inputs.push_back(bound);
    o.slot = slot->second;
    Instr i;
    i.kind = Instr::Kind::load;
    i.dtype = x.dtype;
    i.type = reg_type(x.dtype);
    i.level = o.level;
    i.arg[0] = static_cast<std::int32_t>(p_.operands.size());
    p_.operands.push_back(o);
    return it->second = push(i);
  }

  std::int32_t as(std::int32_t v, RegType type) {
    const Instr from = p_.instrs[v];
    if (from.type == type) return v;
    auto [it, fresh] = converted_.try_emplace({v, type}, -1);
    if (!fresh) return it->second;
    Instr i;
    i.kind = Instr::Kind::convert;
    i.op = Op::cast;
    i.type = type;
    i.dtype = from.dtype;
    i.level = from.level;
    i.arg[0] = v;
    return it->second = push(i);
  }

  std::int32_t rounded(std::int32_t v, DType dtype) {
    if (!is_half(dtype) && dtype != DType::u8) return v;
    Instr i;
    i.kind = Instr::Kind::round;
    i.op = Op::cast;
    i.type = p_.instrs[v].type;
    i.dtype = dtype;
    i.level = p_.instrs[v].level;
    i.arg[0] = v;
    return push(i);
  }

  void emit(std::int32_t v) {
    const Value& x = value(v);
    const Placement& p = f_.places[v];
    switch (info(x.op).cls) {
      case OpClass::elementwise:
        made_[v] = x.op == Op::cast ? emit_cast(x, p) : emit_elementwise(x, p);
        return;
      case OpClass::reduce:
        made_[v] = emit_reduce(x, p);
        return;
      default:
        break;
    }
    // pick and place: the index is i64, one per row.
    const bool pick = x.op == Op::pick;
    AxisMap rows = p.map;
    rows[static_cast<int>(x.attrs.i[0])] = kUnit;
    Instr i;
    i.kind = pick ? Instr::Kind::pick : Instr::Kind::place;
    i.op = x.op;
    i.dtype = x.dtype;
    i.level = pick ? Level::row : Level::full;
    i.label = x.label;
    i.arg[0] = pick ? operand(x.inputs[0], p.operand_map, Level::full) : operand(x.inputs[0], rows, Level::row);
    i.arg[1] = as(operand(x.inputs[1], rows, Level::row), RegType::i64);
    i.type = p_.instrs[i.arg[0]].type;
    made_[v] = push(i);
  }

  std::int32_t emit_cast(const Value& x, const Placement& p) {
    const std::int32_t a = operand(x.inputs[0], p.map, level(p));
    const DType from = value(x.inputs[0]).dtype;
    std::int32_t r;
    if (x.dtype == DType::bool_) {
      r = is_mask(p_.instrs[a].type) ? a : as(a, mask_like(p_.instrs[a].type));
    } else {
      r = as(a, reg_type(x.dtype));
    }
    // Every f16 is an f32, so only narrowing rounds; u8 and bool fit every type but wrap into u8.
    if (is_half(x.dtype) && from != DType::bool_) r = rounded(r, x.dtype);
    if (x.dtype == DType::u8 && from != DType::bool_) r = rounded(r, x.dtype);
    return retyped(r, x.dtype, level(p));
  }

  // A cast that needs no instruction is still a value with a dtype and level (the printer and outputs look there).
  std::int32_t retyped(std::int32_t r, DType dtype, Level l) {
    if (p_.instrs[r].dtype == dtype && p_.instrs[r].level == l) return r;
    if (p_.instrs[r].kind == Instr::Kind::convert && p_.instrs[r].level == l) {
      p_.instrs[r].dtype = dtype;
      return r;
    }
    Instr i;
    i.op = Op::copy;
    i.type = p_.instrs[r].type;
    i.dtype = dtype;
    i.level = l;
    i.arg[0] = r;
    return push(i);
  }

  std::int32_t emit_elementwise(const Value& x, const Placement& p) {
    Instr i;
    i.op = x.op;
    i.dtype = x.dtype;
    i.level = level(p);
    i.label = x.label;
    if (x.op == Op::check) {
      i.of_index = x.attrs.i[0] != 0;
      i.from = x.attrs.i[1];
      i.to = x.attrs.i[2];
    }
    std::array<std::int32_t, 3> a{-1, -1, -1};
    for (std::size_t k = 0; k < x.inputs.size(); ++k) a[k] = operand(x.inputs[k], p.map, i.level);
    const std::size_t main = x.op == Op::where ? 1 : 0;  // the operand whose type is computed in
    RegType type = p_.instrs[a[main]].type;
    if (is_mask(type)) {
      // Masks of both widths may be combined; the wider one is used only if all are wide.
      type = RegType::m64;
      for (std::size_t k = 0; k < x.inputs.size(); ++k) {
        if (p_.instrs[a[k]].type == RegType::m32) type = RegType::m32;
      }
    }
    for (std::size_t k = 0; k < x.inputs.size(); ++k) {
      const bool condition = (x.op == Op::where && k == 0) || (x.op == Op::check && k == 1);
      a[k] = as(a[k], condition ? mask_like(type) : type);
    }
    i.arg = a;
    i.type = x.dtype == DType::bool_ ? mask_like(type) : type;
    const std::int32_t r = push(i);
    return info(x.op).exact_in_halves && is_half(x.dtype) ? r : rounded(r, x.dtype);
  }

  std::int32_t emit_reduce(const Value& x, const Placement& p) {
    Instr i;
    i.op = x.op;
    i.dtype = x.dtype;
    i.level = level(p);
    i.arg[0] = operand(x.inputs[0], p.operand_map, Level::full);
    i.kind = p.post == Post::scalar   ? Instr::Kind::total
             : p.post == Post::column ? Instr::Kind::columns
                                      : Instr::Kind::reduce;
    i.type = p_.instrs[i.arg[0]].type;
    require(!is_mask(i.type), "internal: a reduction of booleans");
    const std::int32_t r = push(i);
    return rounded(r, x.dtype);
  }

  void add_output(std::int32_t v) {
    const Value& x = value(v);
    const Placement& p = f_.places[v];
    Output o;
    o.value = made_.at(v);
    o.dtype = x.dtype;
    o.slot = static_cast<int>(out_.outputs.size());
    const Strides s = strides_of(x);
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (p.map[d] >= 0) o.strides[position_[p.map[d]]] = s[d];
    }
    // The value may be an instruction of a higher level than it varies over only in the one-row space; that is fine.
    out_.outputs.push_back(v);
    p_.outputs.push_back(o);
  }

  // Row results are ready one stage after they were begun; full values move to the stage that first uses them.
  void assign_stages() {
    auto& code = p_.instrs;
    auto ends_stage = [](const Instr& i) { return i.kind == Instr::Kind::reduce || i.kind == Instr::Kind::pick; };
    auto begins_epilogue = [](const Instr& i) {
      return i.kind == Instr::Kind::total || i.kind == Instr::Kind::columns;
    };
    std::vector<char> epilogue(code.size(), 0);
    int last = 0;
    for (std::size_t v = 0; v < code.size(); ++v) {
      Instr& i = code[v];
      int stage = 0;
      bool after = i.level == Level::column && i.kind == Instr::Kind::load;
      if (i.kind != Instr::Kind::load) {
        for (std::int32_t a : i.arg) {
          if (a < 0) continue;
          stage = std::max(stage, code[a].stage + (ends_stage(code[a]) ? 1 : 0));
          after |= epilogue[a] || begins_epilogue(code[a]);
        }
      }
      epilogue[v] = after;
      i.stage = static_cast<std::int16_t>(after ? 0 : stage);
      if (!after) last = std::max(last, stage);
    }
    p_.stages = last + 1;
    for (std::size_t v = 0; v < code.size(); ++v) {
      if (epilogue[v]) code[v].stage = static_cast<std::int16_t>(p_.stages);
    }
    std::vector<int> first_use(code.size(), p_.stages);
    std::vector<char> used(code.size(), 0);
    for (const Output& o : p_.outputs) {
      first_use[o.value] = code[o.value].stage;
      used[o.value] = 1;
    }
    for (std::size_t k = code.size(); k-- > 0;) {
      Instr& i = code[k];
      const bool movable = i.level == Level::full && i.kind != Instr::Kind::reduce && i.kind != Instr::Kind::pick &&
                           i.kind != Instr::Kind::total && i.kind != Instr::Kind::columns && !epilogue[k];
      if (movable && used[k] && first_use[k] > i.stage && first_use[k] < p_.stages) {
        i.stage = static_cast<std::int16_t>(first_use[k]);
      }
      if (i.kind == Instr::Kind::load) continue;
      for (std::int32_t a : i.arg) {
        if (a < 0) continue;
        used[a] = 1;
        first_use[a] = std::min(first_use[a], static_cast<int>(i.stage));
      }
    }
  }

  const ValueGraph& g_;
  const Fusion& f_;
  const SweepGroup& group_;
  int id_;
  LoweredSweep out_;
  Program& p_ = out_.program;
  std::vector<int> position_;                  // of each axis of the group in the program's dims
  std::map<std::int32_t, std::int32_t> made_;  // value -> instruction
  std::map<std::vector<std::int64_t>, std::int32_t> loads_;
  std::map<std::int32_t, int> slots_;
  std::map<std::pair<std::int32_t, RegType>, std::int32_t> converted_;
};

}  // namespace

LoweredSweep lower(const ValueGraph& graph, const Fusion& fusion, int group) {
  return Lowering(graph, fusion, group).run();
}

}  // namespace ebb
