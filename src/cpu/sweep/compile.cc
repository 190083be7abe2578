// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "core/format_error.h"
#include "cpu/sweep/code.h"

// Translates a program's instructions to the interpreter's steps: which registers they read and write, and in which
// stage and on which level they run. choices.cc, chains.cc and slots.cc decide what is kept, what is joined and where
// tasks begin.
namespace ebb::cpu {

namespace {

class Compiler {
 public:
  explicit Compiler(const Program& p) : k_(tile_kernels()), out_(std::make_shared<CompiledSweep>()), s_(*out_) {
    s_.program = p;
  }

  std::shared_ptr<const CompiledSweep> run() {
    shape();
    bind_memory();
    scratch_ = give_scratch(s_);
    summed_product_ = find_summed_products(p_, k_);
    emit_scalars();
    s_.stages.resize(p_.stages);
    row_register_.assign(p_.instrs.size(), -1);
    for (stage_ = 0; stage_ < p_.stages; ++stage_) {
      if (s_.long_rows || stage_ == 0) local_.clear();
      emit_stage();
    }
    find_steps_by_column();
    find_steps_by_row();
    make_chains(s_);
    give_slots(s_);
    emit_epilogue();
    divide_into_tasks(s_);
    for (std::size_t i = 0; i < s_.registers.size(); ++i) {
      const Register::Kind kind = s_.registers[i].kind;
      if (kind != Register::Kind::slot && kind != Register::Kind::row && kind != Register::Kind::scalar)
        s_.moving.push_back(static_cast<std::int32_t>(i));
    }
    return out_;
  }

 private:
  void shape() {
    s_.rows = p_.rows();
    s_.columns = p_.columns();
    s_.flat = p_.row_dims == 0;
    if (s_.flat) {
      s_.columns = s_.rows;
      s_.rows = 1;
    }
    s_.elements = s_.rows * s_.columns;
    if (!s_.flat) shape_tiles(s_);
    s_.slot_bytes = 4;
    for (const Instr& i : p_.instrs) s_.slot_bytes = std::max(s_.slot_bytes, size_of(i.type));
    s_.slot_bytes *= static_cast<std::size_t>(std::max<std::int64_t>(s_.tile, 1));
    s_.slot_bytes = (s_.slot_bytes + 127) / 128 * 128;
  }

  Layout columns_of(const Strides& strides) const {
    const std::size_t n = p_.dims.size();
    return layout_of(p_.dims, n - static_cast<std::size_t>(p_.row_dims), n, strides);
  }
  bool is_flat(const Strides& strides) const { return is_dense(layout_of(p_.dims, 0, p_.dims.size(), strides)); }
  // Memory has a tile's layout, or does so column by column: either elements are in the order of the space, or every
  // tile is one row or a part of it, and dense, or rows are side by side.
  bool points_at(const Strides& strides) const {
    if (s_.upright()) return column_step(s_, strides) >= 0;
    return is_flat(strides) || (!s_.flat && s_.rows_per_tile == 1 && is_dense(columns_of(strides)));
  }
  // Long rows in dense pieces, such as a channel of many images, and each of them whole turns of any loop.
  bool in_pieces(const Layout& columns) const {
    constexpr std::int64_t kTurns = 64;
    return s_.long_rows && columns.rank == 2 && columns.strides[1] == 1 && columns.sizes[1] % kTurns == 0;
  }

  void bind_memory() {
    const std::size_t n = p_.dims.size(), r = n - static_cast<std::size_t>(p_.row_dims);
    for (const Operand& o : p_.operands) {
      s_.operand_layouts.push_back(layout_of(p_.dims, 0, n, o.strides));
      s_.operand_row_layouts.push_back(layout_of(p_.dims, 0, s_.flat ? 0 : r, o.strides));
      s_.operand_column_layouts.push_back(layout_of(p_.dims, s_.flat ? 0 : r, n, o.strides));
      s_.operand_loads.push_back(nullptr);
    }
    for (const Instr& i : p_.instrs) {
      if (i.kind == Instr::Kind::load) s_.operand_loads[i.arg[0]] = k_.load(p_.operands[i.arg[0]].dtype, i.type);
    }
    output_of_.assign(p_.instrs.size(), -1);
    for (std::size_t k = 0; k < p_.outputs.size(); ++k) {
      const Output& o = p_.outputs[k];
      s_.output_layouts.push_back(layout_of(p_.dims, 0, n, o.strides));
      s_.output_row_layouts.push_back(layout_of(p_.dims, 0, s_.flat ? 0 : r, o.strides));
      s_.output_column_layouts.push_back(layout_of(p_.dims, s_.flat ? 0 : r, n, o.strides));
      s_.output_stores.push_back(k_.store(p_.instrs[o.value].type, o.dtype));
      const Instr& v = p_.instrs[o.value];
      const bool computed = v.level == Level::full && v.kind != Instr::Kind::load;
      const bool whole = s_.upright() && v.kind == Instr::Kind::place;  // needs all of a tile
      if (computed && !whole && is_register(o.dtype, v.type) && points_at(o.strides) && output_of_[o.value] < 0)
        output_of_[o.value] = static_cast<std::int32_t>(k);
    }
  }

  // A sum and its operands: a tile, two tiles whose products are summed, or memory.
  template <class Reduction>
  void summed(Reduction& r, Step& step, std::int32_t v) {
    const Instr& i = instr(copied_from(p_, v));
    const std::int32_t halves = summed_product_[v] ? -1 : half_memory(v, r.op);
    const DType memory = halves < 0 ? DType::f32 : i.dtype;
    r.fn = k_.reduce(r.op, r.type, memory);
    r.dot = k_.dot(r.type);
    r.beside = k_.reduce_beside(r.op, r.type, memory);
    if (summed_product_[v]) {
      step.a = operand(i.arg[0]);
      step.b = i.op == Op::square ? step.a : operand(i.arg[1]);
    } else {
      step.a = halves >= 0 ? halves : operand(s_.upright() || s_.straight ? copied_from(p_, v) : v);
    }
  }
  // The register of halves in memory that a reduction of v reads in place; -1: it reads a tile, or other types. Sums of
  // long rows are parts of loops of machine code, which read halves themselves.
  std::int32_t half_memory(std::int32_t v, Op op) {
    const Instr& i = instr(copied_from(p_, v));
    const bool load = i.kind == Instr::Kind::load && i.level == Level::full;
    const bool extreme = op == Op::max || op == Op::min;
    if (!(s_.upright() || s_.straight || (s_.long_rows && extreme)) || !load || !is_half(i.dtype) || !reads_memory(i))
      return -1;
    if (!only_sums(copied_from(p_, v))) return -1;
    const Operand& o = p_.operands[i.arg[0]];
    return add_memory(Register::Kind::operand, i.type, i.arg[0], o.dtype, o.strides);
  }
  bool reads_memory(const Instr& load) const {
    const Operand& o = p_.operands[load.arg[0]];
    return o.kind == Operand::Kind::memory && points_at(o.strides);
  }
  // Only the sum reads it in this stage: it needs no tile.
  bool only_sums(std::int32_t v) const {
    for (const Instr& i : p_.instrs) {
      const bool sum = i.kind == Instr::Kind::reduce || i.kind == Instr::Kind::total || i.kind == Instr::Kind::columns;
      const bool now = !s_.long_rows || i.stage == stage_;
      if (i.kind == Instr::Kind::load || sum || !now) continue;
      const bool copy = copied_from(p_, static_cast<std::int32_t>(&i - p_.instrs.data())) == v;
      const auto reads = [&](std::int32_t a) { return a >= 0 && copied_from(p_, a) == v; };
      if (!copy && std::any_of(i.arg.begin(), i.arg.end(), reads)) return false;
    }
    return std::none_of(p_.outputs.begin(), p_.outputs.end(),
                        [&](const Output& o) { return copied_from(p_, o.value) == v; });
  }

  std::int32_t add_register(Register::Kind kind, RegType type, std::int32_t index) {
    s_.registers.push_back({kind, type, index});
    return static_cast<std::int32_t>(s_.registers.size()) - 1;
  }
  // A register that points straight into memory.
  std::int32_t add_register(Register::Kind kind, RegType type, std::int32_t index, const Strides& strides) {
    const std::int32_t r = add_register(kind, type, index);
    s_.registers[r].by_row = s_.upright() || !is_flat(strides);
    if (s_.strips) s_.registers[r].across = column_step(s_, strides);
    return r;
  }
  // An operand or output copied by steps, as stored in memory: a loop of machine code accesses it directly instead.
  std::int32_t add_memory(Register::Kind kind, RegType type, std::int32_t index, DType dtype, const Strides& strides) {
    const bool dense = points_at(strides), half = is_half(dtype) && type == RegType::f32;
    const Layout columns = columns_of(strides);
    const bool pieces = !dense && !s_.upright() && in_pieces(columns);
    if (!(half ? dense || pieces : pieces && is_register(dtype, type))) return -1;
    const std::int32_t r = add_register(kind, type, index, strides);
    s_.registers[r].halves = half;
    if (pieces) s_.registers[r].piece = columns.sizes[1], s_.registers[r].step = columns.strides[0];
    return r;
  }

  const Instr& instr(std::int32_t v) const { return p_.instrs[v]; }

  // ---- scalars: once, before the rows ----
  void emit_scalars() {
    s_.scalar_of.assign(p_.instrs.size(), -1);
    scalar_register_.assign(p_.instrs.size(), -1);
    for (std::size_t v = 0; v < p_.instrs.size(); ++v) {
      const Instr& i = p_.instrs[v];
      if (i.level != Level::scalar) continue;
      s_.scalar_of[v] = s_.scalars++;
      scalar_register_[v] = add_register(Register::Kind::scalar, i.type, s_.scalar_of[v]);
      if (i.stage == p_.stages || i.kind == Instr::Kind::total) continue;
      Step step;
      step.instr = static_cast<std::int32_t>(v);
      step.dst = static_cast<std::int32_t>(v);
      if (i.kind == Instr::Kind::load) {
        step.kind = Step::Kind::load;
        step.item = i.arg[0];
      } else {
        step.kind = i.op == Op::check ? Step::Kind::check : Step::Kind::compute;
        step.fn = kernel(i, 0);
        step.a = i.arg[0], step.b = i.arg[1], step.c = i.arg[2];
      }
      s_.scalar_steps.push_back(step);
    }
  }

  ElementwiseFn kernel(const Instr& i, unsigned scalar_mask) const {
    ElementwiseFn fn = nullptr;
    switch (i.kind) {
      case Instr::Kind::convert:
        fn = k_.convert(instr(i.arg[0]).type, i.type);
        break;
      case Instr::Kind::round:
        fn = k_.round(i.dtype);
        break;
      default: {
        // Comparisons are kernels of their operands' type; where is one of its result's.
        const std::int32_t main = i.op == Op::where ? i.arg[1] : i.arg[0];
        fn = k_.elementwise(i.op, instr(main).type, scalar_mask);
      }
    }
    require(fn != nullptr || scalar_mask != 0, "internal: no tile kernel for {} of {}", info(i.op).name, name(i.dtype));
    return fn;
  }

  // ---- a stage ----
  void emit_stage() {
    StageCode& code = s_.stages[stage_];
    for (std::size_t v = 0; v < p_.instrs.size(); ++v) {
      const Instr& i = p_.instrs[v];
      const auto id = static_cast<std::int32_t>(v);
      if (i.stage != stage_) continue;
      if (i.kind == Instr::Kind::reduce) {
        Step step;
        step.kind = Step::Kind::reduce;
        RowReduce reduce{.op = i.op, .type = i.type};
        summed(reduce, step, i.arg[0]);
        step.item = static_cast<std::int32_t>(s_.reduces.size());
        reduce.dst = row_register_[v] = add_register(Register::Kind::row, i.type, s_.row_registers++);
        s_.reduces.push_back(reduce);
        code.reduces.push_back(step.item);
        code.full_steps.push_back(step);
      } else if (i.kind == Instr::Kind::pick) {
        Step step;
        step.kind = Step::Kind::pick;
        step.instr = id;
        step.a = full(i.arg[0]);
        step.b = any_row(i.arg[1]);
        step.dst = row_register_[v] = add_register(Register::Kind::row, i.type, s_.row_registers++);
        code.full_steps.push_back(step);
      } else if (i.kind == Instr::Kind::total) {
        Step step;
        step.item = static_cast<std::int32_t>(s_.totals.size());
        const bool of_rows = instr(i.arg[0]).level != Level::full && !s_.flat;
        Total total{.op = i.op, .type = i.type, .instr = id, .of_rows = of_rows};
        step.kind = of_rows ? Step::Kind::total_row : Step::Kind::total;
        if (of_rows) {
          step.a = any_row(i.arg[0]);
        } else {
          summed(total, step, i.arg[0]);
          code.totals.push_back(step.item);
        }
        s_.totals.push_back(total);
        (of_rows ? code.row_steps : code.full_steps).push_back(step);
      } else if (i.kind == Instr::Kind::columns) {
        Step step;
        step.kind = Step::Kind::columns;
        step.item = static_cast<std::int32_t>(s_.column_reduces.size());
        const std::int32_t halves = half_memory(i.arg[0], i.op);
        const DType memory = halves < 0 ? DType::f32 : instr(copied_from(p_, i.arg[0])).dtype;
        step.a = halves < 0 ? full(s_.straight ? copied_from(p_, i.arg[0]) : i.arg[0]) : halves;
        s_.column_reduces.push_back({i.op, i.type, k_.reduce_columns(i.op, i.type, memory), id});
        code.full_steps.push_back(step);
      } else if (i.level == Level::row) {
        emit_row(id);
      } else if (i.level == Level::full && i.kind != Instr::Kind::load && !summed_product_[v] &&
                 !(copied_from(p_, id) != id && only_sums(copied_from(p_, id)))) {
        full(id);
      }
    }
    for (std::size_t k = 0; k < p_.outputs.size(); ++k) {
      const Output& o = p_.outputs[k];
      const Instr& v = instr(o.value);
      const bool ends = v.kind == Instr::Kind::reduce || v.kind == Instr::Kind::pick;
      if (v.stage != stage_) continue;
      Step step;
      step.item = static_cast<std::int32_t>(k);
      if (v.level == Level::full && output_of_[o.value] != static_cast<std::int32_t>(k)) {
        step.kind = Step::Kind::store;
        step.a = full(o.value);
        step.b = add_memory(Register::Kind::output, v.type, step.item, o.dtype, o.strides);
        code.full_steps.push_back(step);
      } else if (v.level == Level::row) {
        step.kind = Step::Kind::store_row;
        step.a = any_row(o.value);
        (ends ? code.finish_steps : code.row_steps).push_back(step);
      }
    }
  }

  void emit_row(std::int32_t v) {
    if (row_register_[v] >= 0) return;
    const Instr& i = instr(v);
    Step step;
    step.instr = v;
    if (i.kind == Instr::Kind::load) {
      step.kind = Step::Kind::load_row;
      step.item = i.arg[0];
    } else {
      step.kind = i.op == Op::check && i.kind == Instr::Kind::compute ? Step::Kind::check : Step::Kind::compute;
      unsigned mask = 0;
      std::int32_t* to[] = {&step.a, &step.b, &step.c};
      for (int k = 0; k < 3; ++k) {
        if (i.arg[k] < 0) continue;
        *to[k] = any_row(i.arg[k]);
        if (instr(i.arg[k]).level == Level::scalar) mask |= 1u << k;
      }
      choose(step, i, mask, s_.stages[stage_].row_steps, true);
    }
    step.dst = row_register_[v] = add_register(Register::Kind::row, i.type, s_.row_registers++);
    s_.stages[stage_].row_steps.push_back(step);
  }

  std::int32_t any_row(std::int32_t v) {
    if (instr(v).level == Level::scalar) return scalar_register_[v];
    if (row_register_[v] < 0) emit_row(v);
    return row_register_[v];
  }

  // Picks the loop for these scalar operands; if there is none, the numbers are first repeated.
  void choose(Step& step, const Instr& i, unsigned mask, std::vector<Step>& into, bool row) {
    const int arity = (i.arg[0] >= 0) + (i.arg[1] >= 0) + (i.arg[2] >= 0);
    const unsigned every = (1u << arity) - 1;
    if (i.kind == Instr::Kind::compute && mask != 0 && mask != every) {
      step.fn = kernel(i, mask);
      if (step.fn) return;
    }
    step.fn = kernel(i, 0);
    std::int32_t* from[] = {&step.a, &step.b, &step.c};
    for (int k = 0; k < arity; ++k) {
      if (!(mask >> k & 1)) continue;
      Step repeat;
      const bool of_rows = s_.registers[*from[k]].kind == Register::Kind::row && s_.rows_per_tile > 1;
      repeat.kind = of_rows && !row ? Step::Kind::spread : Step::Kind::repeat;
      repeat.a = *from[k];
      const RegType type = s_.registers[*from[k]].type;
      repeat.dst = row ? add_register(Register::Kind::row, type, s_.row_registers++)
                       : add_register(Register::Kind::slot, type, -1);
      into.push_back(repeat);
      *from[k] = repeat.dst;
    }
  }

  // The number, or the row value, that a full value is copies of; otherwise itself.
  std::int32_t repeated_in(std::int32_t v) const {
    const Instr& i = instr(v);
    if (i.kind != Instr::Kind::compute || i.op != Op::copy || i.level != Level::full) return v;
    const Instr& one = instr(i.arg[0]);
    return one.level != Level::full && one.type == i.type ? i.arg[0] : v;
  }

  bool same_in_every_row(std::int32_t operand) const {
    return !s_.flat && !s_.long_rows && s_.operand_row_layouts[operand].rank > 0 &&
           repeats(s_.operand_row_layouts[operand]);
  }

  // The same as full, for steps that go row by row if they have to: a single row of what is the same in every row.
  std::int32_t operand(std::int32_t v) {
    const Instr& i = instr(v);
    if (!s_.row_by_row || i.kind != Instr::Kind::load || i.level != Level::full || !same_in_every_row(i.arg[0]))
      return full(v);
    if (const auto it = each_row_.find(v); it != each_row_.end()) return it->second;
    const Operand& o = p_.operands[i.arg[0]];
    std::int32_t r;
    if (o.kind == Operand::Kind::memory && is_register(o.dtype, i.type) && is_dense(columns_of(o.strides))) {
      r = add_register(Register::Kind::operand, i.type, i.arg[0], o.strides);
    } else {
      Step step;
      step.kind = Step::Kind::load;
      step.instr = v;
      step.item = i.arg[0];
      step.invariant = true;
      step.dst = r = add_register(Register::Kind::slot, i.type, -1);
      s_.stages[stage_].full_steps.push_back(step);
    }
    s_.registers[r].each_row = true;
    return each_row_[v] = r;
  }

  // The register of a full value in this stage; emits its steps.
  std::int32_t full(std::int32_t v) {
    const Instr& i = instr(v);
    std::vector<Step>& code = s_.stages[stage_].full_steps;
    if (i.level == Level::scalar || i.level == Level::row) return spread(v);
    auto it = local_.find(v);
    if (it != local_.end()) return it->second;
    if (s_.long_rows && i.stage < stage_ && scratch_[v] >= 0) {
      return local_[v] = add_register(Register::Kind::scratch, i.type, scratch_[v]);
    }
    Step step;
    step.instr = v;
    if (i.kind == Instr::Kind::load) {
      const Operand& o = p_.operands[i.arg[0]];
      if (o.kind == Operand::Kind::memory && is_register(o.dtype, i.type) && points_at(o.strides)) {
        return local_[v] = add_register(Register::Kind::operand, i.type, i.arg[0], o.strides);
      }
      step.kind = Step::Kind::load;
      step.item = i.arg[0];
      // Whole rows of a value that is the same in every row: one copy serves all tiles.
      step.invariant = same_in_every_row(i.arg[0]);
      if (o.kind == Operand::Kind::memory && !step.invariant)
        step.a = add_memory(Register::Kind::operand, i.type, i.arg[0], o.dtype, o.strides);
    } else if (i.kind == Instr::Kind::place) {
      step.kind = Step::Kind::place;
      step.a = any_row(i.arg[0]);
      step.b = any_row(i.arg[1]);
    } else {
      step.kind = i.op == Op::check && i.kind == Instr::Kind::compute ? Step::Kind::check : Step::Kind::compute;
      unsigned mask = 0;
      std::int32_t* to[] = {&step.a, &step.b, &step.c};
      for (int k = 0; k < 3; ++k) {
        if (i.arg[k] < 0) continue;
        const std::int32_t from = repeated_in(i.arg[k]);
        const bool rows_alone = s_.rows_per_tile == 1 || s_.row_by_row;
        if (instr(from).level == Level::scalar || (instr(from).level == Level::row && rows_alone)) {
          mask |= 1u << k;
          *to[k] = any_row(from);
        } else {  // in strips, a row value itself
          *to[k] = operand(from);
        }
      }
      choose(step, i, mask, code, false);
    }
    const bool keep = s_.long_rows && scratch_[v] >= 0 && i.stage == stage_;
    if (output_of_[v] >= 0 && i.stage == stage_ && !keep) {
      step.dst = add_register(Register::Kind::output, i.type, output_of_[v], p_.outputs[output_of_[v]].strides);
    } else if (keep) {
      step.dst = add_register(Register::Kind::scratch, i.type, scratch_[v]);
      if (output_of_[v] >= 0) {  // both kept and stored
        Step store;
        store.kind = Step::Kind::store;
        store.item = output_of_[v];
        store.a = step.dst;
        code.push_back(step);
        code.push_back(store);
        return local_[v] = step.dst;
      }
    } else {
      step.dst = add_register(Register::Kind::slot, i.type, -1);
    }
    code.push_back(step);
    return local_[v] = step.dst;
  }

  // A register of strips that is not a tile: memory with separate columns, or a row value, the same in every column.
  void find_steps_by_column() {
    const auto apart = [this](std::int32_t r) {
      return r >= 0 && (s_.registers[r].across >= 0 || s_.registers[r].kind == Register::Kind::row);
    };
    if (!s_.strips) return;
    for (StageCode& stage : s_.stages) {
      for (Step& step : stage.full_steps)
        step.by_column = apart(step.dst) || apart(step.a) || apart(step.b) || apart(step.c);
    }
  }

  void find_steps_by_row() {
    const auto of_row = [this](std::int32_t r) {
      return r >= 0 && (s_.registers[r].each_row || s_.registers[r].kind == Register::Kind::row);
    };
    if (!s_.row_by_row) return;
    for (StageCode& stage : s_.stages) {
      for (Step& step : stage.full_steps) {
        const bool loop = step.kind == Step::Kind::compute || step.kind == Step::Kind::check ||
                          step.kind == Step::Kind::reduce || step.kind == Step::Kind::total;
        step.by_row = loop && (of_row(step.a) || of_row(step.b) || of_row(step.c));
      }
    }
  }

  // A scalar or row value as a tile.
  std::int32_t spread(std::int32_t v) {
    auto it = local_.find(v);
    if (it != local_.end()) return it->second;
    Step step;
    const bool one = instr(v).level == Level::scalar || s_.rows_per_tile == 1;
    if (!one && s_.strips) return local_[v] = any_row(v);
    step.kind = one ? Step::Kind::repeat : Step::Kind::spread;
    step.a = any_row(v);
    step.dst = add_register(Register::Kind::slot, instr(v).type, -1);
    s_.stages[stage_].full_steps.push_back(step);
    return local_[v] = step.dst;
  }

  void emit_epilogue() {
    for (std::size_t v = 0; v < p_.instrs.size(); ++v) {
      const Instr& i = p_.instrs[v];
      if (i.stage != p_.stages) continue;
      Step step;
      step.instr = static_cast<std::int32_t>(v);
      step.dst = step.instr;
      if (i.kind == Instr::Kind::load) {
        step.kind = Step::Kind::load;
        step.item = i.arg[0];
      } else {
        step.kind = Step::Kind::compute;
        step.fn = kernel(i, 0);
        step.a = i.arg[0], step.b = i.arg[1], step.c = i.arg[2];
      }
      s_.epilogue.push_back(step);
    }
  }

  const TileKernels& k_;
  std::shared_ptr<CompiledSweep> out_;
  CompiledSweep& s_;
  const Program& p_ = s_.program;
  int stage_ = 0;
  std::map<std::int32_t, std::int32_t> each_row_;  // full value -> register of a single row
  std::map<std::int32_t, std::int32_t> local_;     // full value -> register, in this stage (or in all, for short rows)
  std::vector<std::int32_t> row_register_, scalar_register_, scratch_, output_of_;
  std::vector<char> summed_product_;
};

}  // namespace

SweepPtr compile(const Program& program) { return Compiler(with_row_values(program)).run(); }

}  // namespace ebb::cpu
