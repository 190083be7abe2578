// SPDX-License-Identifier: MIT
#include <algorithm>
#include <type_traits>

#include "cpu/jit/code.h"

#if defined(__aarch64__)
#include "cpu/jit/assembler_neon.h"
#elif defined(__x86_64__)
#include "cpu/jit/assembler_avx2.h"
#include "cpu/jit/assembler_avx512.h"
#endif

// Assembles a loop's instructions to machine code. The register of each value is decided instruction by instruction as
// they are emitted, so register allocation and code generation are one pass.
namespace ebb::cpu {

namespace {

int vectors(bool wide, int vector_bytes) { return static_cast<int>(kLoopGroup) * (wide ? 8 : 4) / vector_bytes; }

// Emits the body for the vectors of a group, a few vectors side by side: an instruction of each, then the next
// instruction. They are independent of each other, and a processor looks ahead only so far: one vector after the other
// takes longer the longer the chain of dependent instructions.
//
// Numbers and constants are kept on the stack, as are values for which there is currently no register: the one needed
// last is spilled. Accesses to the stack use units that are otherwise nearly idle.
template <class Assembler>
class Emitter {
 public:
  static Rests rests_of(const LoopCode& code, int side_by_side) {
    if (std::max(side_by_side, vectors(code.wide, Assembler::kVectorBytes)) > Assembler::kRestVectors)
      return Rests::by_steps;
    const auto is_half = [](const auto& memory) { return memory.stored != Stored::as_computed; };
    const bool halves = std::any_of(code.values.begin(), code.values.end(), is_half) ||
                        std::any_of(code.stores.begin(), code.stores.end(), is_half);
    return halves ? Assembler::kRestsOfHalves : Assembler::kRests;
  }

  Emitter(const LoopCode& code, int side_by_side) : code_(code), side_by_side_(side_by_side) {
    uses_.resize(code_.values.size());
    for (int v = static_cast<int>(code_.values.size()); v-- > 0;) {
      for (int a : code_.values[v].arg) {
        if (a >= 0 && needed(v)) uses_[a].insert(uses_[a].begin(), v);
      }
    }
    for (std::size_t v = 0; v < code_.values.size(); ++v) once_.push_back(made_once(static_cast<int>(v)));
    place_pointers();
  }

  // Empty when registers do not suffice. Registers left over go to the most used numbers and
  // constants.
  std::vector<std::uint8_t> run() {
    emit({});
    if (failed_) return {};
    std::vector<int> fixed;
    for (std::size_t v = 0; v < code_.values.size(); ++v) {
      if (once_[v]) fixed.push_back(static_cast<int>(v));
    }
    std::stable_sort(fixed.begin(), fixed.end(), [&](int a, int b) { return uses_[a].size() > uses_[b].size(); });
    fixed.resize(std::min(fixed.size(), static_cast<std::size_t>(Assembler::kVectorRegisters - peak_)));
    return emit(fixed);
  }

 private:
  using Value = LoopCode::Value;
  static constexpr int kMost = 8;          // vectors side by side
  static constexpr int kFrameSlots = 200;  // of the stack
  using Registers = std::array<int, kMost>;
  static constexpr Registers kNone{-1, -1, -1, -1, -1, -1, -1, -1};

  std::vector<std::uint8_t> emit(const std::vector<int>& resident) {
    Assembler a(code_.wide);
    a_ = &a;
    failed_ = moving_.size() > Assembler::kPointerRegisters;
    peak_ = slots_ = 0;
    free_.clear();
    for (int v = Assembler::kVectorRegisters; v-- > 0;) free_.push_back(v);
    registers_.assign(code_.values.size(), kNone);
    slot_.assign(code_.values.size(), -1);
    a.begin(kFrameSlots);
    for (std::size_t v = 0; v < code_.values.size(); ++v) {
      if (!once_[v] || !needed(static_cast<int>(v))) continue;
      place_once(v, std::find(resident.begin(), resident.end(), static_cast<int>(v)) != resident.end());
    }
    for (std::size_t k = 0; k < code_.sums.size() * static_cast<std::size_t>(vectors_); ++k) sums_.push_back(take());
    for (std::size_t k = 0; k < code_.guards.size(); ++k) guards_.push_back(take());
    if (!code_.ordinary.empty()) guards_.push_back(take());
    a.set_wide(code_.wide);
    // Nothing is read from the table after this.
    for (std::size_t p = 0; p < moving_.size() && !failed_; ++p) a.pointer(static_cast<int>(p), moving_[p]);
    a.start_block();
    int at = 0;
    for (int v : sums_) a.load_state(v, at), at += Assembler::kVectorBytes;
    for (int v : guards_) a.all_ones(v);
    if constexpr (Assembler::kGuardsInMask) a.start_guard();
    a.start_loop();
    for (int k = 0; k < turn_; k += side_by_side_) body(k);
    a.set_wide(code_.wide);
    a.end_loop(to_halves_, turn_ * Assembler::kVectorBytes);
    if constexpr (Assembler::kRests != Rests::by_steps) {
      if (rests_of(code_, side_by_side_) != Rests::by_steps) {
        a.start_rest(turn_);
        in_rest_ = true;
        for (int k = 0; k < turn_; k += side_by_side_) body(k);
        in_rest_ = false;
        a.set_wide(code_.wide);
        a.end_rest();
      }
    }
    at = 0;
    for (int v : sums_) a.store_state(v, at), at += Assembler::kVectorBytes;
    if constexpr (Assembler::kGuardsInMask) {
      if (!code_.ordinary.empty()) a.apply_guard(guards_.back());
    }
    for (int v : guards_) a.store_guard(v, at), at += static_cast<int>(kGuardBytes);
    a.end_block(at);
    a.end();
    sums_.clear();
    guards_.clear();
    return failed_ ? std::vector<std::uint8_t>() : a.take();
  }

  void place_pointers() {
    auto note = [&](int pointer, Stored stored) {
      if (std::find(moving_.begin(), moving_.end(), pointer) != moving_.end()) return;
      moving_.push_back(pointer);
      to_halves_.push_back(stored != Stored::as_computed);
    };
    for (const Value& v : code_.values) {
      if (v.source == LoopCode::Source::tile) note(v.pointer, v.stored);
    }
    for (const LoopProgram::Store& s : code_.stores) note(s.pointer, s.stored);
  }
  int general(int pointer) const {
    const auto at = std::find(moving_.begin(), moving_.end(), pointer) - moving_.begin();
    return at < Assembler::kPointerRegisters ? static_cast<int>(at) : 0;
  }

  // Numbers, constants, and values that depend only on them: computed before the loop.
  bool made_once(int v) const {
    const Value& value = code_.values[v];
    if (value.source != LoopCode::Source::result) return value.fixed();
    return !leaves(v) && std::all_of(value.arg.begin(), value.arg.end(),
                                     [&](int a) { return a < 0 || once_[static_cast<std::size_t>(a)]; });
  }
  void place_once(std::size_t v, bool resident) {
    const Value& value = code_.values[v];
    const int r = take();
    a_->set_wide(value.wide);
    if (value.source == LoopCode::Source::number) {
      a_->repeat(r, value.pointer);
    } else if (value.source == LoopCode::Source::constant) {
      a_->constant(r, value.bits);
    } else {
      compute_once(value, r);
    }
    if (resident) {
      registers_[v].fill(r);
    } else {
      slot_[v] = slots_++;
      a_->store_frame(r, slot_[v]);
      free_.push_back(r);
    }
  }

  void compute_once(const Value& value, int d) {
    std::array<int, 3> in{-1, -1, -1};
    std::vector<int> borrowed;
    for (std::size_t n = 0; n < 3; ++n) {
      const int a = value.arg[n];
      if (a < 0) continue;
      in[n] = of(a, 0);
      if (in[n] >= 0) continue;
      in[n] = take();
      borrowed.push_back(in[n]);
      a_->load_frame(in[n], slot_[a]);
    }
    if (Assembler::needs_spare(value.op)) borrowed.push_back(take());
    if (const std::size_t onto = overwritten(value.op); onto < 3) a_->move(d, in[onto]);
    instruction(value, d, in, Assembler::needs_spare(value.op) ? borrowed.back() : -1);
    free_.insert(free_.end(), borrowed.begin(), borrowed.end());
  }

  // ---- registers ----

  int take() {
    if (free_.empty()) make_room();
    if (free_.empty()) {
      failed_ = true;
      return 0;
    }
    const int v = free_.back();
    free_.pop_back();
    peak_ = std::max(peak_, Assembler::kVectorRegisters - static_cast<int>(free_.size()));
    return v;
  }
  Registers take_all() {
    Registers r = kNone;
    for (int i = 0; i < side_by_side_; ++i) r[static_cast<std::size_t>(i)] = take();
    return r;
  }

  int next_use(int v) const {
    const auto at = std::upper_bound(uses_[v].begin(), uses_[v].end(), now_);
    return at == uses_[v].end() ? -1 : *at;
  }
  bool ends_now(int v) const { return !once_[v] && next_use(v) < 0; }

  // Spills the value that is needed last, among those in registers that this instruction does not need.
  void make_room() {
    int victim = -1;
    for (int v = 0; v < now_; ++v) {
      const auto& args = code_.values[now_].arg;
      if (once_[v] || registers_[v][0] < 0 || std::find(args.begin(), args.end(), v) != args.end()) continue;
      if (victim < 0 || next_use(v) > next_use(victim)) victim = v;
    }
    if (victim < 0) return;
    if (slot_[victim] < 0) {
      slot_[victim] = slots_;
      slots_ += side_by_side_;
      for (int i = 0; i < side_by_side_; ++i) a_->store_frame(of(victim, i), slot_[victim] + i);
    }
    release(victim);
  }
  int of(int v, int i) const { return registers_[v][static_cast<std::size_t>(i)]; }

  void release(int v) {
    if (registers_[v][0] < 0 || once_[v]) return;
    for (int i = 0; i < side_by_side_; ++i) free_.push_back(of(v, i));
    registers_[v] = kNone;
  }

  // Limits what comes next to the elements that there are, behind the last turn. Returns a register for it to use.
  int only(int j) {
    if constexpr (Assembler::kRests != Rests::by_steps) a_->only(in_rest_ ? j : -1);
    return in_rest_ && Assembler::kRestsNeedSpare ? take() : -1;
  }
  void give(int spare) {
    if constexpr (Assembler::kRests != Rests::by_steps) a_->only(-1);
    if (spare >= 0) free_.push_back(spare);
  }

  // The value's registers, loaded from its slot if it has none.
  const Registers& fetch(int v, int k) {
    if (registers_[v][0] >= 0) return registers_[v];
    const Registers r = take_all();
    a_->set_wide(code_.values[v].wide);
    for (int i = 0; i < side_by_side_; ++i) {
      const int to = r[static_cast<std::size_t>(i)];
      if (slot_[v] >= 0) {
        a_->load_frame(to, slot_[v] + i);
        continue;
      }
      const Value& value = code_.values[v];
      if constexpr (Assembler::kRests != Rests::by_steps) a_->only(in_rest_ ? k + i : -1);
      if (value.stored != Stored::as_computed) {
        a_->load_half(to, general(value.pointer), (k + i) * Assembler::kVectorBytes, value.stored);
      } else {
        a_->load(to, general(value.pointer), (k + i) * Assembler::kVectorBytes);
      }
      if constexpr (Assembler::kRests != Rests::by_steps) a_->only(-1);
    }
    a_->set_wide(code_.values[now_].wide);
    return registers_[v] = r;
  }

  // ---- the body ----

  // Vectors [k, k + side_by_side_) of a group.
  void body(int k) {
    const int slots_before = slots_;
    for (std::size_t v = 0; v < code_.values.size() && !failed_; ++v) {
      const Value& value = code_.values[v];
      now_ = static_cast<int>(v);
      a_->set_wide(value.wide);
      if (value.source == LoopCode::Source::tile && leaves(now_)) {
        fetch(now_, k);  // others are loaded where they are first used
        finish(now_, k);
      } else if (value.source == LoopCode::Source::result && needed(now_) && !once_[v]) {
        compute(value, k);
      }
    }
    for (std::size_t v = 0; v < code_.values.size(); ++v) {
      if (once_[v]) continue;
      registers_[v] = kNone;
      slot_[v] = -1;
    }
    if (slots_ > kFrameSlots) failed_ = true;
    slots_ = slots_before;
  }

  void compute(const Value& value, int k) {
    std::array<Registers, 3> in{kNone, kNone, kNone};
    std::vector<int> borrowed;
    const std::size_t onto = overwritten(value.op);
    for (std::size_t n = 0; n < 3; ++n) {
      const int a = value.arg[n];
      if (a < 0) continue;
      if (!once_[a] || slot_[a] < 0) {
        in[n] = fetch(a, k);
      } else if (n != onto) {  // a number on the stack; what is overwritten is loaded where it belongs
        borrowed.push_back(take());
        a_->load_frame(borrowed.back(), slot_[a]);
        in[n].fill(borrowed.back());
      }
    }
    const auto let_go = [&] {
      free_.insert(free_.end(), borrowed.begin(), borrowed.end());
      for (int a : value.arg) {
        if (a >= 0 && ends_now(a)) release(a);
      }
    };
    if constexpr (Assembler::kGuardsInMask) {
      if (only_guards(value)) {
        const int spare = take();
        for (std::size_t i = 0; i < static_cast<std::size_t>(side_by_side_); ++i) {
          a_->only(in_rest_ ? k + static_cast<int>(i) : -1);
          a_->guard(value.op, in[0][i], in[1][i], spare);
        }
        a_->only(-1);
        free_.push_back(spare);
        return let_go();
      }
    }
    const int heir = inherited(value);
    const Registers d = heir >= 0 ? in[static_cast<std::size_t>(heir)] : take_all();
    const int spare = Assembler::needs_spare(value.op) ? take() : -1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(side_by_side_); ++i) {
      if (onto < 3 && in[onto][i] >= 0) a_->move(d[i], in[onto][i]);
      if (onto < 3 && in[onto][i] < 0) a_->load_frame(d[i], slot_[value.arg[onto]]);
      instruction(value, d[i], {in[0][i], in[1][i], in[2][i]}, spare);
    }
    if (spare >= 0) free_.push_back(spare);
    if (heir >= 0) registers_[value.arg[static_cast<std::size_t>(heir)]] = kNone;
    let_go();
    registers_[now_] = d;
    finish(now_, k);
  }

  // Is it a comparison of ordinary numbers with the ends of their range, used for nothing else?
  bool only_guards(const Value& value) const {
    const bool compares = value.op == Micro::equal || value.op == Micro::less || value.op == Micro::less_equal ||
                          value.op == Micro::abs_less;
    return compares && has(code_.ordinary, now_) && uses_[now_].empty() && !leaves_elsewhere(now_);
  }

  // The operand that the instruction overwrites with its result; 3: none.
  static std::size_t overwritten(Micro op) {
    return op == Micro::fma || op == Micro::fnma ? 2 : op == Micro::copy_sign ? 0 : 3;
  }

  // An operand that is last used here and whose registers the result may take; -1: none.
  int inherited(const Value& value) const {
    auto ends = [&](std::size_t n) { return value.arg[n] >= 0 && ends_now(value.arg[n]); };
    auto ends_alone = [&](std::size_t n) {
      return ends(n) && std::count(value.arg.begin(), value.arg.end(), value.arg[n]) == 1;
    };
    const std::size_t onto = overwritten(value.op);
    if (onto < 3) return ends_alone(onto) ? static_cast<int>(onto) : -1;
    for (std::size_t n = 0; n < 3; ++n) {
      if (value.op == Micro::select ? ends_alone(n) : Assembler::may_overwrite(value.op) && ends(n))
        return static_cast<int>(n);
    }
    return -1;
  }

  void instruction(const Value& value, int d, const std::array<int, 3>& in, int spare) {
    switch (value.op) {
      case Micro::fma:
        return a_->fma(d, in[0], in[1]);
      case Micro::fnma:
        return a_->fnma(d, in[0], in[1]);
      case Micro::select:
        return a_->select(d, in[0], in[1], in[2]);
      case Micro::copy_sign:
        return a_->copy_sign(d, in[1], in[2], spare);
      default:
        return a_->run(value.op, d, in[0], in[1], value.immediate, spare);
    }
  }

  static bool has(const std::vector<int>& list, int v) { return std::find(list.begin(), list.end(), v) != list.end(); }
  bool needed(int v) const { return !uses_[v].empty() || leaves(v); }
  bool leaves(int v) const { return has(code_.ordinary, v) || leaves_elsewhere(v); }
  bool leaves_elsewhere(int v) const {
    return has(code_.sums, v) || has(code_.guards, v) ||
           std::any_of(code_.stores.begin(), code_.stores.end(), [&](const auto& s) { return s.value == v; });
  }

  void store(int r, const LoopProgram::Store& to, int vector) {
    const int offset = vector * Assembler::kVectorBytes, of_rest = only(vector);
    if (to.stored == Stored::as_computed) {
      a_->store(r, general(to.pointer), offset, of_rest);
    } else {
      const int spare = take();
      a_->store_half(r, general(to.pointer), offset, to.stored, spare);
      free_.push_back(spare);
    }
    give(of_rest);
  }

  // Moves a value to where it is wanted.
  void finish(int v, int k) {
    for (int i = 0; i < side_by_side_; ++i) {
      const int r = of(v, i);
      for (const LoopProgram::Store& s : code_.stores) {
        if (s.value == v) store(r, s, k + i);
      }
      for (std::size_t n = 0; n < code_.sums.size(); ++n) {
        if (code_.sums[n] != v) continue;
        const int spare = only(k + i);
        a_->accumulate(sums_[n * static_cast<std::size_t>(vectors_) + static_cast<std::size_t>((k + i) % vectors_)], r,
                       spare);
        give(spare);
      }
      auto hold = [&](int guard) {
        const int spare = only(k + i);
        a_->hold(guard, r, spare);
        give(spare);
      };
      for (std::size_t n = 0; n < code_.guards.size(); ++n) {
        if (code_.guards[n] == v) hold(guards_[n]);
      }
      if (has(code_.ordinary, v)) hold(guards_.back());
    }
    if (next_use(v) < 0) release(v);
  }

  const LoopCode& code_;
  const int side_by_side_, vectors_ = vectors(code_.wide, Assembler::kVectorBytes);  // of a group of 16 elements
  const int turn_ = std::max(side_by_side_, vectors_);  // vectors that one turn of the loop takes
  Assembler* a_ = nullptr;
  std::vector<std::vector<int>> uses_;  // for each value, the values that use it
  std::vector<int> free_, moving_, sums_, guards_;
  std::vector<bool> once_;            // of each value: computed before the loop
  std::vector<bool> to_halves_;       // of moving_
  std::vector<Registers> registers_;  // of each value, for the vectors side by side
  std::vector<int> slot_;             // its stack slot, -1: none
  bool in_rest_ = false;              // emitting the turn for the elements behind the last one
  int now_ = 0;                       // the value being computed
  int slots_ = 0;
  int peak_ = 0;  // most registers in use at once
  bool failed_ = false;
};

// Calls f(assembler's type) for the assembler of a target; returns `none` if there is none.
template <class T, class F>
T with_assembler([[maybe_unused]] LoopTarget target, T none, [[maybe_unused]] F f) {
#if defined(__aarch64__)
  if (target == LoopTarget::neon) return f(std::type_identity<NeonAssembler>());
#elif defined(__x86_64__)
  if (target == LoopTarget::avx2) return f(std::type_identity<Avx2Assembler>());
  if (target == LoopTarget::avx512) return f(std::type_identity<Avx512Assembler>());
#endif
  return none;
}

}  // namespace

int vectors_in_a_group(LoopTarget target, bool wide) {
  return with_assembler(target, 1, [&]<class A>(std::type_identity<A>) { return vectors(wide, A::kVectorBytes); });
}

std::vector<std::uint8_t> emit(const LoopCode& code, LoopTarget target, int side_by_side) {
  return with_assembler(target, std::vector<std::uint8_t>(),
                        [&]<class A>(std::type_identity<A>) { return Emitter<A>(code, side_by_side).run(); });
}

Rests rests_of(const LoopCode& code, LoopTarget target, int side_by_side) {
  return with_assembler(target, Rests::by_steps,
                        [&]<class A>(std::type_identity<A>) { return Emitter<A>::rests_of(code, side_by_side); });
}

}  // namespace ebb::cpu
