// SPDX-License-Identifier: MIT
// Chooses values that passes over a row leave in shared memory for later ones: greedily, by instructions saved.
#include "cuda/plan/keep.h"

#include <algorithm>

#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

class Chooser {
 public:
  Chooser(const Program& p, const GpuModel& model, const std::vector<std::int32_t>& staged, const PassRoots& passes,
          const std::vector<char>& coarse)
      : p_(p), model_(model), staged_(staged), passes_(passes), n_(static_cast<std::int32_t>(p.instrs.size())) {
    for (std::int32_t v = 0; v < n_; ++v) cost_.push_back(instructions_of(p, v, coarse[at(v)] != 0));
    for (const std::int32_t operand : staged_) room_ += chunks_of(p_.operands[at(operand)].dtype);
  }

  KeptBefore run() {
    KeptBefore before(passes_.size());
    if (p_.instrs.size() > model_.most_instructions_kept || staged_.empty()) return before;
    int last = -1;
    for (std::size_t k = 0; k < passes_.size(); ++k) {
      if (!passes_[k].empty()) last = static_cast<int>(k);
    }
    std::vector<std::int32_t> held;
    for (int k = 0; k < last; ++k) {
      const auto next = static_cast<std::size_t>(k) + 1;
      before[next] = before[static_cast<std::size_t>(k)];
      if (passes_[static_cast<std::size_t>(k)].empty()) continue;
      held = choose(k, held);
      place(held, k, before[static_cast<std::size_t>(k)], before[next]);
    }
    return before;
  }

 private:
  const Instr& instr(std::int32_t v) const { return cuda::instr(p_, v); }

  // Sets the dtype that holds it exactly; false if it is not kept.
  bool may_keep(std::int32_t v, int pass, DType& dtype) const {
    const Instr& i = instr(v);
    if (i.level != Level::full || i.stage > pass || i.kind == Kind::load || i.kind == Kind::place) return false;
    if (i.kind == Kind::round && (i.dtype == DType::f16 || i.dtype == DType::bf16)) {
      dtype = i.dtype;
      return true;
    }
    dtype = DType::f32;
    return i.type == RegType::f32;
  }

  // Marks what is computed for these roots from held values, and adds its instructions.
  struct Cone {
    std::vector<char> values, operands;
    double cost = 0;
  };
  void mark(std::int32_t v, const std::vector<char>& held, Cone& cone) const {
    if (v < 0 || cone.values[at(v)]) return;
    const Instr& i = instr(v);
    if (i.level != Level::full) return;
    cone.values[at(v)] = 1;
    if (held[at(v)]) {
      DType dtype = DType::f32;
      (void)may_keep(v, kAnyPass, dtype);
      cone.cost += model_.chunk_access * chunks_of(dtype) + (size_of(dtype) == 2);
      return;
    }
    cone.cost += cost_[at(v)];
    if (i.kind == Kind::load) {
      cone.operands[at(i.arg[0])] = 1;
      return;
    }
    for (const std::int32_t a : i.arg) mark(a, held, cone);
  }
  Cone cone_of(const std::vector<std::int32_t>& roots, const std::vector<char>& held) const {
    Cone cone{std::vector<char>(p_.instrs.size()), std::vector<char>(p_.operands.size())};
    for (const std::int32_t v : roots) mark(v, held, cone);
    for (const std::int32_t operand : staged_) {
      if (cone.operands[at(operand)]) cone.cost += model_.chunk_access * chunks_of(p_.operands[at(operand)].dtype);
    }
    return cone;
  }

  struct Score {
    double cost = 0;
    int chunks = 0;
    std::vector<std::int32_t> used;  // among the values held
  };
  // Cost of pass `pass`, which finds `before`, and all passes after it, if it keeps `held`.
  Score score(int pass, const std::vector<char>& before, const std::vector<std::int32_t>& held) const {
    std::vector<char> has(p_.instrs.size());
    for (const std::int32_t v : held) has[at(v)] = 1;
    Score s;
    std::vector<char> used(p_.instrs.size()), operands(p_.operands.size());
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], has);
      s.cost += cone.cost;
      for (std::size_t o = 0; o < operands.size(); ++o) operands[o] |= cone.operands[o];
      for (const std::int32_t v : held) used[at(v)] |= cone.values[at(v)];
    }
    for (const std::int32_t operand : staged_) {
      if (operands[at(operand)]) s.chunks += chunks_of(p_.operands[at(operand)].dtype);
    }
    std::vector<std::int32_t> roots = passes_[static_cast<std::size_t>(pass)];
    for (const std::int32_t v : held) {
      if (!used[at(v)]) continue;
      s.used.push_back(v);
      DType dtype = DType::f32;
      (void)may_keep(v, kAnyPass, dtype);
      s.chunks += chunks_of(dtype);
      if (before[at(v)]) continue;
      s.cost += model_.chunk_access * chunks_of(dtype);
      roots.push_back(v);
    }
    s.cost += cone_of(roots, before).cost;
    return s;
  }

  std::vector<std::int32_t> choose(int pass, const std::vector<std::int32_t>& found) const {
    std::vector<char> before(p_.instrs.size());
    for (const std::int32_t v : found) before[at(v)] = 1;
    Score best = score(pass, before, found);
    // Candidates: values that later passes need and this one can have.
    std::vector<char> needed(p_.instrs.size());
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], before);
      for (std::size_t v = 0; v < needed.size(); ++v) needed[v] |= cone.values[v];
    }
    std::vector<std::int32_t> candidates;
    DType dtype = DType::f32;
    for (std::int32_t v = 0; v < n_; ++v) {
      if (needed[at(v)] && !before[at(v)] && may_keep(v, pass, dtype)) candidates.push_back(v);
    }
    const auto better = [&](const std::vector<std::int32_t>& more, Score& so_far) {
      std::vector<std::int32_t> held = best.used;
      held.insert(held.end(), more.begin(), more.end());
      Score s = score(pass, before, held);
      if (s.chunks <= room_ && s.cost < so_far.cost - (so_far.used == best.used ? model_.worth_keeping : 0))
        so_far = std::move(s);
    };
    for (;;) {
      Score next = best;
      for (const std::int32_t v : candidates) better({v}, next);
      if (next.used == best.used && candidates.size() <= model_.pair_candidates) {
        for (std::size_t a = 0; a < candidates.size(); ++a) {
          for (std::size_t b = a + 1; b < candidates.size(); ++b) better({candidates[a], candidates[b]}, next);
        }
      }
      if (next.used == best.used) return best.used;
      best = std::move(next);
    }
  }

  // Assigns chunks to what is held after a pass: the previous ones, or any that no later pass reads.
  void place(const std::vector<std::int32_t>& held, int pass, const std::vector<KeptValue>& before,
             std::vector<KeptValue>& after) const {
    after.clear();
    std::vector<char> has(p_.instrs.size()), taken(static_cast<std::size_t>(room_)), operands(p_.operands.size());
    for (const std::int32_t v : held) has[at(v)] = 1;
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], has);
      for (std::size_t o = 0; o < operands.size(); ++o) operands[o] |= cone.operands[o];
    }
    int chunk = 0;
    for (const std::int32_t operand : staged_) {
      for (int i = 0; i < chunks_of(p_.operands[at(operand)].dtype); ++i)
        taken[static_cast<std::size_t>(chunk++)] = operands[at(operand)];
    }
    for (const KeptValue& k : before) {
      if (!has[at(k.value)]) continue;
      after.push_back(k);
      for (const int c : k.chunks) taken[static_cast<std::size_t>(c)] = 1;
    }
    for (const std::int32_t v : held) {
      if (std::any_of(before.begin(), before.end(), [&](const KeptValue& k) { return k.value == v; })) continue;
      KeptValue kept{v, DType::f32, {}};
      (void)may_keep(v, kAnyPass, kept.dtype);
      for (int c = 0; c < room_ && static_cast<int>(kept.chunks.size()) < chunks_of(kept.dtype); ++c) {
        if (taken[static_cast<std::size_t>(c)]) continue;
        taken[static_cast<std::size_t>(c)] = 1;
        kept.chunks.push_back(c);
      }
      after.push_back(std::move(kept));
    }
  }

  static constexpr int kAnyPass = 1 << 14;
  const Program& p_;
  const GpuModel& model_;
  const std::vector<std::int32_t>& staged_;
  const PassRoots& passes_;
  const std::int32_t n_;
  std::vector<double> cost_;
  int room_ = 0;  // chunks
};

}  // namespace

KeptBefore keep_values(const Program& program, const GpuModel& model, const std::vector<std::int32_t>& staged,
                       const PassRoots& passes, const std::vector<char>& coarse) {
  return Chooser(program, model, staged, passes, coarse).run();
}

// If a row is not in shared memory as a whole, every pass recomputes everything.
void choose_kept(const Program& program, const GpuModel& model, KernelPlan& plan) {
  if (plan.staged.empty() || !plan.all_staged() || !plan.vectors || plan.skewed || holds_rows_of_group(model, plan) ||
      holds_wide_row(program, model, plan))
    return;
  PassRoots roots;
  for (const PassPlan& pass : plan.passes) roots.push_back(roots_of(program, pass));
  const KeptBefore before = keep_values(program, model, plan.staged, roots, plan.coarse);
  for (std::size_t k = 0; k < plan.passes.size(); ++k) {
    PassPlan& pass = plan.passes[k];
    pass.found = before[k];
    if (k + 1 < before.size()) {
      for (const KeptValue& kept : before[k + 1]) {
        if (!is_found(pass.found, kept.value)) pass.keeps.push_back(kept);
      }
    }
    std::fill(pass.needed.begin(), pass.needed.end(), char{0});
    for (const std::int32_t v : roots_of(program, pass)) need(program, plan, v, pass.needed, pass.found);
    for (const KeptValue& kept : pass.keeps) need(program, plan, kept.value, pass.needed, pass.found);
  }
}

}  // namespace ebb::cuda
