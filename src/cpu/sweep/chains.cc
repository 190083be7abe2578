// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <span>

#include "cpu/sweep/code.h"

namespace ebb::cpu {
namespace {

bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }
Stored stored(DType dtype) {
  return dtype == DType::bf16 ? Stored::bf16 : dtype == DType::f16 ? Stored::f16 : Stored::as_computed;
}
bool is_number(RegType t) { return t == RegType::f32 || t == RegType::f64; }

class Chains {
 public:
  explicit Chains(CompiledSweep& s) : s_(s), readers_(s.registers.size(), 0) {
    for (const StageCode& stage : s_.stages) {
      for (const Step& step : stage.full_steps) count_readers(step, 1);
    }
  }

  // Emits everything that may run before the cheap steps, then all cheap steps that may run by then, and so on.
  void run(std::vector<Step>& steps) {
    std::vector<Step> rest = std::move(steps);
    steps.clear();
    std::vector<char> pending(s_.registers.size(), 0);  // not yet made
    for (const Step& step : rest) {
      if (step.dst >= 0) pending[step.dst] = 1;
    }
    auto ready = [&](const Step& step) {
      for (std::int32_t r : {step.a, step.b, step.c}) {
        if (r >= 0 && r != step.dst && pending[r]) return false;
      }
      return true;
    };
    auto take = [&](auto wanted) {
      std::vector<Step> taken, left;
      for (const Step& step : rest) {
        if (!wanted(step) || !ready(step)) {
          left.push_back(step);
          continue;
        }
        if (step.dst >= 0) pending[step.dst] = 0;
        taken.push_back(step);
      }
      rest = std::move(left);
      return taken;
    };
    while (!rest.empty()) {
      for (const Step& step : take([&](const Step& s) { return width(s) == 0; })) steps.push_back(step);
      for (int bytes : {4, 8}) emit(take([&](const Step& s) { return width(s) == bytes; }), steps);
    }
  }

 private:
  void count_readers(const Step& step, int by) {
    for (std::int32_t r : {step.a, step.b, step.c}) {
      if (r >= 0) readers_[r] += by;
    }
  }

  RegType type(std::int32_t reg) const { return s_.registers[reg].type; }

  // Bytes per element of a step that a loop may take; 0: it may not.
  int width(const Step& step) const {
    if (!fits(step)) return 0;
    return static_cast<int>(size_of(type(step.kind == Step::Kind::compute ? step.dst : step.a)));
  }

  bool fits(const Step& step) const {
    const auto same_width = [&](std::int32_t r) { return r < 0 || size_of(type(r)) == size_of(type(step.dst)); };
    switch (step.kind) {
      case Step::Kind::compute: {
        const Instr& i = s_.program.instrs[step.instr];
        if (!same_width(step.a) || !same_width(step.b) || !same_width(step.c)) return false;
        if (i.kind == Instr::Kind::convert) return is_mask(type(step.a)) && is_number(type(step.dst));
        if (i.kind == Instr::Kind::round) return type(step.a) == RegType::f32 && type(step.dst) == RegType::f32;
        if (i.kind != Instr::Kind::compute || !has_native_form(i.op, size_of(type(step.dst)) == 8)) return false;
        const bool of_masks =
            i.op == Op::logical_and || i.op == Op::logical_or || i.op == Op::logical_xor || i.op == Op::logical_not;
        for (std::int32_t r : {step.a, step.b, step.c}) {
          if (r < 0) continue;
          const bool mask = of_masks || (i.op == Op::where && r == step.a);
          if (mask ? !is_mask(type(r)) : !is_number(type(r))) return false;
        }
        return true;
      }
      case Step::Kind::load:
        return step.a >= 0 && is_number(type(step.dst));
      case Step::Kind::store:
        return step.b >= 0 && is_number(type(step.a));
      case Step::Kind::check:
        return is_number(type(step.dst)) && same_width(step.b);
      case Step::Kind::total:
        return (s_.flat || rows_alone()) && sums(s_.totals[step.item]);
      case Step::Kind::reduce:
        return rows_alone() && sums(s_.reduces[step.item]);
      default:
        return false;
    }
  }
  // A loop is part of one row.
  bool rows_alone() const { return s_.row_by_row || (s_.long_rows && !s_.upright()); }
  template <class Reduction>
  static bool sums(const Reduction& r) {
    return r.op == Op::sum && is_number(r.type);
  }

  // As few chains as the registers allow, each as long as possible; unchanged where there is nothing to gain.
  void emit(std::span<const Step> steps, std::vector<Step>& into) {
    while (!steps.empty()) {
      std::size_t fits = 1, too_long = steps.size() + 1;  // a chain of `fits` steps can be made, or is not needed
      Chain longest;
      for (std::size_t n = steps.size(); too_long - fits > 1; n = (fits + too_long) / 2) {
        if (Chain chain = make(steps.first(n)); chain.loop) {
          longest = std::move(chain);
          fits = n;
        } else {
          too_long = n;
        }
      }
      if (fits == 1) {
        into.push_back(steps[0]);
      } else {
        Step step;
        step.kind = Step::Kind::chain;
        step.item = static_cast<std::int32_t>(s_.chains.size());
        step.by_row = s_.row_by_row && !longest.sums.empty();
        for (const Step& s : steps.first(fits)) {
          step.by_column = step.by_column || s.by_column;
          step.by_row = step.by_row || s.by_row;
        }
        s_.chains.push_back(std::move(longest));
        into.push_back(step);
      }
      steps = steps.subspan(fits);
    }
  }
  void emit(const std::vector<Step>& steps, std::vector<Step>& into) { emit(std::span<const Step>(steps), into); }

  Chain make(std::span<const Step> steps) {
    Chain chain;
    LoopProgram p;
    chain.wide = p.wide = width(steps[0]) == 8;
    std::map<std::int32_t, int> value_of;  // register -> value
    auto is_one = [&](std::int32_t reg) {
      const Register::Kind kind = s_.registers[reg].kind;
      return kind == Register::Kind::scalar || (kind == Register::Kind::row && !s_.strips);
    };
    auto pointer = [&](std::int32_t reg) {
      chain.registers.push_back(reg);
      chain.strides.push_back(is_one(reg) ? 0 : p.wide ? 8 : s_.registers[reg].halves ? 2 : 4);
      return p.pointers++;
    };
    auto value = [&](std::int32_t reg) {
      if (auto it = value_of.find(reg); it != value_of.end()) return it->second;
      p.values.push_back(
          {.source = is_one(reg) ? LoopProgram::Source::number : LoopProgram::Source::tile, .pointer = pointer(reg)});
      return value_of[reg] = static_cast<int>(p.values.size()) - 1;
    };
    // Results of the loop are computed in it: a number becomes a vector of its own.
    auto leaving = [&](int v) {
      if (p.values[v].source != LoopProgram::Source::number) return v;
      p.values.push_back({.op = Op::copy, .arg = {v, -1, -1}});
      return static_cast<int>(p.values.size()) - 1;
    };
    for (const Step& step : steps) count_readers(step, -1);  // what remains are readers outside
    for (const Step& step : steps) {
      chain.steps.push_back(step);
      if (step.kind == Step::Kind::total || step.kind == Step::Kind::reduce) {
        int summed = value(step.a);
        if (step.b >= 0) {
          p.values.push_back({.op = Op::mul, .arg = {summed, value(step.b), -1}});
          summed = static_cast<int>(p.values.size()) - 1;
        }
        p.sums.push_back(leaving(summed));
        chain.sums.push_back(step);
        continue;
      }
      if (step.kind == Step::Kind::store) {
        p.stores.push_back({leaving(value(step.a)), pointer(step.b), stored(s_.program.outputs[step.item].dtype)});
        continue;
      }
      int made;
      if (step.kind == Step::Kind::load) {
        p.values.push_back({.source = LoopProgram::Source::tile,
                            .pointer = pointer(step.a),
                            .stored = stored(s_.program.operands[step.item].dtype)});
        made = static_cast<int>(p.values.size()) - 1;
      } else if (step.kind == Step::Kind::check) {
        p.guards.push_back(leaving(value(step.b)));
        made = value(step.a);
      } else {
        const Instr& i = s_.program.instrs[step.instr];
        LoopProgram::Value v;
        v.from_mask = i.kind == Instr::Kind::convert;
        if (i.kind == Instr::Kind::round) v.stored = stored(i.dtype);
        v.op = v.from_mask || i.kind == Instr::Kind::round ? Op::copy : i.op;
        const std::int32_t from[] = {step.a, step.b, step.c};
        for (int k = 0; k < 3; ++k) {
          if (from[k] >= 0) v.arg[k] = value(from[k]);
        }
        p.values.push_back(v);
        made = static_cast<int>(p.values.size()) - 1;
      }
      value_of[step.dst] = made;
      if (s_.registers[step.dst].kind != Register::Kind::slot || readers_[step.dst] > 0)
        p.stores.push_back({leaving(made), pointer(step.dst)});
    }
    for (const Step& step : steps) count_readers(step, 1);
    chain.loop = make_native_loop(p);
    return chain;
  }

  CompiledSweep& s_;
  std::vector<int> readers_;  // of each register, among the steps over full tiles
};

}  // namespace

void make_chains(CompiledSweep& sweep) {
  if (!worth_native_loops(sweep.elements)) return;
  Chains chains(sweep);
  for (StageCode& stage : sweep.stages) chains.run(stage.full_steps);
}

}  // namespace ebb::cpu
