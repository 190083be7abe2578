#include "cuda/print/keep.h"

#include <algorithm>

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

constexpr double kChunkAccess = 0.125;    // instructions per element: 16 bytes of eight of them
constexpr double kWorthIt = 0.5;          // instructions per element that must be saved
constexpr std::size_t kMostPairs = 48;    // candidates that are also tried two at a time
constexpr std::size_t kMostInstrs = 400;  // of a program that is looked at

double function_instructions(Op op, bool coarse) {
  switch (op) {
    case Op::copy:
    case Op::check:
      return 0;
    case Op::div:
      return coarse ? 3 : 10;
    case Op::reciprocal:
      return coarse ? 1 : 9;
    case Op::sqrt:
    case Op::rsqrt:
      return coarse ? 3 : 10;
    case Op::exp:
    case Op::exp2:
      return coarse ? 2 : 8;
    case Op::log:
    case Op::log2:
    case Op::log10:
      return coarse ? 8 : 18;
    case Op::expm1:
    case Op::log1p:
    case Op::log1p_unit:
    case Op::tanh:
      return coarse ? 9 : 22;
    case Op::pow:
      return coarse ? 16 : 60;
    case Op::sign:
      return 4;
    default:
      return info(op).costly ? 30 : 1;
  }
}

class Chooser {
 public:
  Chooser(const Program& p, const std::vector<std::int32_t>& staged, const PassRoots& passes,
          const std::vector<char>& coarse)
      : p_(p), staged_(staged), passes_(passes), n_(static_cast<std::int32_t>(p.instrs.size())) {
    for (std::int32_t v = 0; v < n_; ++v)
      cost_.push_back(instructions_of(p, v, coarse[static_cast<std::size_t>(v)] != 0));
    for (const std::int32_t operand : staged_) room_ += chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype);
  }

  Keeping run() {
    Keeping result;
    result.before.resize(passes_.size());
    if (p_.instrs.size() > kMostInstrs || staged_.empty()) return result;
    int last = -1;
    for (std::size_t k = 0; k < passes_.size(); ++k) {
      if (!passes_[k].empty()) last = static_cast<int>(k);
    }
    std::vector<std::int32_t> held;
    for (int k = 0; k < last; ++k) {
      const auto next = static_cast<std::size_t>(k) + 1;
      result.before[next] = result.before[static_cast<std::size_t>(k)];
      if (passes_[static_cast<std::size_t>(k)].empty()) continue;
      held = choose(k, held);
      place(held, k, result.before[static_cast<std::size_t>(k)], result.before[next]);
    }
    return result;
  }

 private:
  const Instr& instr(std::int32_t v) const { return p_.instrs[static_cast<std::size_t>(v)]; }

  // The dtype that holds it exactly; false where it is not kept.
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

  // Marks what is made for these roots from what is held, and adds its instructions.
  struct Cone {
    std::vector<char> values, operands;
    double cost = 0;
  };
  void mark(std::int32_t v, const std::vector<char>& held, Cone& cone) const {
    if (v < 0 || cone.values[static_cast<std::size_t>(v)]) return;
    const Instr& i = instr(v);
    if (i.level != Level::full) return;
    cone.values[static_cast<std::size_t>(v)] = 1;
    if (held[static_cast<std::size_t>(v)]) {
      DType dtype = DType::f32;
      (void)may_keep(v, kAnyPass, dtype);
      cone.cost += kChunkAccess * chunks_of(dtype) + (size_of(dtype) == 2);
      return;
    }
    cone.cost += cost_[static_cast<std::size_t>(v)];
    if (i.kind == Kind::load) {
      cone.operands[static_cast<std::size_t>(i.arg[0])] = 1;
      return;
    }
    for (const std::int32_t a : i.arg) mark(a, held, cone);
  }
  Cone cone_of(const std::vector<std::int32_t>& roots, const std::vector<char>& held) const {
    Cone cone{std::vector<char>(p_.instrs.size()), std::vector<char>(p_.operands.size())};
    for (const std::int32_t v : roots) mark(v, held, cone);
    for (const std::int32_t operand : staged_) {
      if (cone.operands[static_cast<std::size_t>(operand)])
        cone.cost += kChunkAccess * chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype);
    }
    return cone;
  }

  struct Score {
    double cost = 0;
    int chunks = 0;
    std::vector<std::int32_t> used;  // of the values held
  };
  // What pass `pass`, which finds `before`, and all passes after it cost, if `held` are kept by it.
  Score score(int pass, const std::vector<char>& before, const std::vector<std::int32_t>& held) const {
    std::vector<char> has(p_.instrs.size());
    for (const std::int32_t v : held) has[static_cast<std::size_t>(v)] = 1;
    Score s;
    std::vector<char> used(p_.instrs.size()), operands(p_.operands.size());
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], has);
      s.cost += cone.cost;
      for (std::size_t o = 0; o < operands.size(); ++o) operands[o] |= cone.operands[o];
      for (const std::int32_t v : held) used[static_cast<std::size_t>(v)] |= cone.values[static_cast<std::size_t>(v)];
    }
    for (const std::int32_t operand : staged_) {
      if (operands[static_cast<std::size_t>(operand)])
        s.chunks += chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype);
    }
    std::vector<std::int32_t> roots = passes_[static_cast<std::size_t>(pass)];
    for (const std::int32_t v : held) {
      if (!used[static_cast<std::size_t>(v)]) continue;
      s.used.push_back(v);
      DType dtype = DType::f32;
      (void)may_keep(v, kAnyPass, dtype);
      s.chunks += chunks_of(dtype);
      if (before[static_cast<std::size_t>(v)]) continue;
      s.cost += kChunkAccess * chunks_of(dtype);
      roots.push_back(v);
    }
    s.cost += cone_of(roots, before).cost;
    return s;
  }

  std::vector<std::int32_t> choose(int pass, const std::vector<std::int32_t>& found) const {
    std::vector<char> before(p_.instrs.size());
    for (const std::int32_t v : found) before[static_cast<std::size_t>(v)] = 1;
    Score best = score(pass, before, found);
    // Candidates: what later passes need of values that this one can have.
    std::vector<char> needed(p_.instrs.size());
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], before);
      for (std::size_t v = 0; v < needed.size(); ++v) needed[v] |= cone.values[v];
    }
    std::vector<std::int32_t> candidates;
    DType dtype = DType::f32;
    for (std::int32_t v = 0; v < n_; ++v) {
      if (needed[static_cast<std::size_t>(v)] && !before[static_cast<std::size_t>(v)] && may_keep(v, pass, dtype))
        candidates.push_back(v);
    }
    const auto better = [&](const std::vector<std::int32_t>& more, Score& so_far) {
      std::vector<std::int32_t> held = best.used;
      held.insert(held.end(), more.begin(), more.end());
      Score s = score(pass, before, held);
      if (s.chunks <= room_ && s.cost < so_far.cost - (so_far.used == best.used ? kWorthIt : 0)) so_far = std::move(s);
    };
    for (;;) {
      Score next = best;
      for (const std::int32_t v : candidates) better({v}, next);
      if (next.used == best.used && candidates.size() <= kMostPairs) {
        for (std::size_t a = 0; a < candidates.size(); ++a) {
          for (std::size_t b = a + 1; b < candidates.size(); ++b) better({candidates[a], candidates[b]}, next);
        }
      }
      if (next.used == best.used) return best.used;
      best = std::move(next);
    }
  }

  // Chunks for what is held after a pass: those it had, or any that no later pass reads.
  void place(const std::vector<std::int32_t>& held, int pass, const std::vector<KeptValue>& before,
             std::vector<KeptValue>& after) const {
    after.clear();
    std::vector<char> has(p_.instrs.size()), taken(static_cast<std::size_t>(room_)), operands(p_.operands.size());
    for (const std::int32_t v : held) has[static_cast<std::size_t>(v)] = 1;
    for (std::size_t k = static_cast<std::size_t>(pass) + 1; k < passes_.size(); ++k) {
      const Cone cone = cone_of(passes_[k], has);
      for (std::size_t o = 0; o < operands.size(); ++o) operands[o] |= cone.operands[o];
    }
    int chunk = 0;
    for (const std::int32_t operand : staged_) {
      for (int i = 0; i < chunks_of(p_.operands[static_cast<std::size_t>(operand)].dtype); ++i)
        taken[static_cast<std::size_t>(chunk++)] = operands[static_cast<std::size_t>(operand)];
    }
    for (const KeptValue& k : before) {
      if (!has[static_cast<std::size_t>(k.value)]) continue;
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
  const std::vector<std::int32_t>& staged_;
  const PassRoots& passes_;
  const std::int32_t n_;
  std::vector<double> cost_;
  int room_ = 0;  // chunks
};

}  // namespace

double instructions_of(const Program& p, std::int32_t v, bool coarse) {
  const Instr& i = p.instrs[static_cast<std::size_t>(v)];
  const auto is_half = [](DType d) { return d == DType::f16 || d == DType::bf16; };
  switch (i.kind) {
    case Kind::load: {
      const Operand& o = p.operands[static_cast<std::size_t>(i.arg[0])];
      if (o.kind == Operand::Kind::random) return 60;
      if (o.kind == Operand::Kind::iota) return 2;
      return o.kind == Operand::Kind::memory && is_half(o.dtype) ? 1 : 0.25;
    }
    case Kind::round:
      return is_half(i.dtype) ? 2 : 1;
    case Kind::convert:
      return 1;
    case Kind::place:
      return 3;
    case Kind::compute: {
      const bool wide = i.type == RegType::f64;
      return function_instructions(i.op, coarse && !wide) * (wide ? 2 : 1);
    }
    default:
      return 1;
  }
}

Keeping keep_values(const Program& program, const std::vector<std::int32_t>& staged, const PassRoots& passes,
                    const std::vector<char>& coarse) {
  return Chooser(program, staged, passes, coarse).run();
}

}  // namespace ebb::cuda
