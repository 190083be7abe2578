#include "cpu/native_loop.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/tile_kernels.h"

#if defined(__aarch64__)
#define EBB_NATIVE_LOOPS 1
#include "cpu/assembler_arm64.h"
#elif defined(__x86_64__)
#define EBB_NATIVE_LOOPS 1
#include "cpu/assembler_x86_64.h"
#else
#define EBB_NATIVE_LOOPS 0
#endif

namespace ebb::cpu {

bool native_loops_usable() {
#if EBB_NATIVE_LOOPS
  // Tests force slower targets to see whether they agree; those have no machine code of their own here.
  const char* target = tile_kernels().target;
  return std::strcmp(target, "NEON") == 0 || std::strcmp(target, "AVX2") == 0 || std::strcmp(target, "AVX3") == 0;
#else
  return false;
#endif
}

namespace {
std::atomic<NativeLoops> when{NativeLoops::for_large_sweeps};
}  // namespace

void set_native_loops(NativeLoops w) { when = w; }

bool worth_native_loops(std::int64_t elements) {
  constexpr std::int64_t kLarge = 1 << 13;
  const NativeLoops now = when;
  return native_loops_usable() && now != NativeLoops::never && (now == NativeLoops::always || elements >= kLarge);
}

bool has_native_form(Op op) {
  switch (op) {
    case Op::copy:
    case Op::neg:
    case Op::reciprocal:
    case Op::square:
    case Op::abs:
    case Op::sign:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
    case Op::isnan:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::maximum:
    case Op::minimum:
    case Op::fma:
    case Op::where:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
    case Op::logical_not:
      return true;
    default:
      return false;
  }
}

#if EBB_NATIVE_LOOPS
namespace {

// Emits the body once for each vector of a group. Vectors are independent of each other: the processor overlaps them,
// and one vector's values are all that is live at a time.
class Emitter {
 public:
  explicit Emitter(const LoopProgram& p) : p_(p), a_(p.wide) {
    for (int v = Assembler::kVectorRegisters; v-- > 0;) free_.push_back(v);
  }

  // Empty when registers do not suffice.
  std::vector<std::uint8_t> run() {
    find_last_uses();
    a_.begin();
    place_pointers();
    register_of_.assign(p_.values.size(), -1);
    for (std::size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].source == LoopProgram::Source::number) {
        register_of_[v] = take_register();
        a_.repeat(register_of_[v], p_.values[v].pointer);
      }
    }
    if (std::any_of(p_.values.begin(), p_.values.end(), [](const Value& v) { return needs_one(v); })) {
      one_ = take_register();
      a_.one(one_);
    }
    std::vector<int> sums, guards;
    for (std::size_t k = 0; k < p_.sums.size() * static_cast<std::size_t>(vectors_); ++k) {
      sums.push_back(take_register());
      a_.zero(sums.back());
    }
    const int guard_state = static_cast<int>(p_.sums.size() * kLoopGroup) * element_bytes();
    for (std::size_t k = 0; k < p_.guards.size(); ++k) {
      guards.push_back(take_register());
      a_.all_ones(guards.back());
    }
    // Nothing is read from the table any more.
    for (std::size_t p = 0; p < moving_.size(); ++p) a_.pointer(static_cast<int>(p), moving_[p]);
    a_.start_loop();
    for (int k = 0; k < vectors_; ++k) emit_body(k, sums, guards);
    a_.end_loop(static_cast<int>(moving_.size()), static_cast<int>(kLoopGroup) * element_bytes());
    for (std::size_t k = 0; k < sums.size(); ++k)
      a_.store_state(sums[k], static_cast<int>(k) * Assembler::kVectorBytes);
    for (std::size_t k = 0; k < guards.size(); ++k) {
      for (int part = 0; part < static_cast<int>(kGuardBytes); part += Assembler::kVectorBytes)
        a_.store_state(guards[k], guard_state + static_cast<int>(k * kGuardBytes) + part);
    }
    a_.end();
    return failed_ ? std::vector<std::uint8_t>() : a_.take();
  }

 private:
  using Value = LoopProgram::Value;

  static bool needs_one(const Value& v) {
    return v.from_mask || v.op == Op::sign || v.op == Op::reciprocal || v.op == Op::rsqrt;
  }

  int element_bytes() const { return p_.wide ? 8 : 4; }

  int take_register() {
    if (free_.empty()) {
      failed_ = true;
      return 0;
    }
    const int v = free_.back();
    free_.pop_back();
    return v;
  }
  void give_back(int v) { free_.push_back(v); }

  void find_last_uses() {
    last_use_.assign(p_.values.size(), -1);
    for (std::size_t v = 0; v < p_.values.size(); ++v) {
      for (int a : p_.values[v].arg) {
        if (a >= 0) last_use_[a] = static_cast<int>(v);
      }
    }
  }

  void place_pointers() {
    auto note = [&](int pointer) {
      if (std::find(moving_.begin(), moving_.end(), pointer) == moving_.end()) moving_.push_back(pointer);
    };
    for (const Value& v : p_.values) {
      if (v.source == LoopProgram::Source::tile) note(v.pointer);
    }
    for (const LoopProgram::Store& s : p_.stores) note(s.pointer);
    if (moving_.size() > Assembler::kPointerRegisters) {
      failed_ = true;
      moving_.resize(Assembler::kPointerRegisters);
    }
  }
  int general(int pointer) const {
    const auto at = std::find(moving_.begin(), moving_.end(), pointer) - moving_.begin();
    return at < Assembler::kPointerRegisters ? static_cast<int>(at) : 0;
  }

  void emit_body(int k, const std::vector<int>& sums, const std::vector<int>& guards) {
    const int offset = k * Assembler::kVectorBytes;
    for (std::size_t v = 0; v < p_.values.size() && !failed_; ++v) {
      const Value& value = p_.values[v];
      if (value.source == LoopProgram::Source::number) continue;
      // A tile is loaded where it is first used.
      if (value.source == LoopProgram::Source::tile) {
        if (used_at_once(v)) finish(static_cast<int>(v), loaded(static_cast<int>(v), offset), offset, k, sums, guards);
        continue;
      }
      std::array<int, 3> in{-1, -1, -1};
      for (int n = 0; n < 3; ++n) {
        if (value.arg[n] >= 0) in[n] = loaded(value.arg[n], offset);
      }
      const int d = take_over(value, static_cast<int>(v), in);
      compute(value, d, in);
      for (int n = 0; n < 3; ++n) {
        const int a = value.arg[n];
        if (a >= 0 && last_use_[a] == static_cast<int>(v)) release(a);
      }
      register_of_[v] = d;
      finish(static_cast<int>(v), d, offset, k, sums, guards);
    }
  }

  // The result's register. Where an instruction overwrites an operand anyway, that operand's if it ends here: the mask
  // of a selection, what a product is added to.
  int take_over(const Value& value, int v, const std::array<int, 3>& in) {
    const int n = value.op == Op::where ? 0 : value.op == Op::fma ? 2 : -1;
    if (n < 0) return take_register();
    const int a = value.arg[static_cast<std::size_t>(n)];
    const bool ends = last_use_[a] == v && p_.values[a].source != LoopProgram::Source::number;
    if (!ends || std::count(value.arg.begin(), value.arg.end(), a) != 1) return take_register();
    register_of_[a] = -1;
    return in[static_cast<std::size_t>(n)];
  }

  bool used_at_once(std::size_t v) const {
    const int id = static_cast<int>(v);
    return std::any_of(p_.stores.begin(), p_.stores.end(), [&](const auto& s) { return s.value == id; }) ||
           std::find(p_.sums.begin(), p_.sums.end(), id) != p_.sums.end() ||
           std::find(p_.guards.begin(), p_.guards.end(), id) != p_.guards.end();
  }

  int loaded(int v, int offset) {
    if (register_of_[v] < 0) {
      register_of_[v] = take_register();
      a_.load(register_of_[v], general(p_.values[v].pointer), offset);
    }
    return register_of_[v];
  }

  void release(int v) {
    if (register_of_[v] < 0 || p_.values[v].source == LoopProgram::Source::number) return;
    give_back(register_of_[v]);
    register_of_[v] = -1;
  }

  // A value that is there goes where it is wanted.
  void finish(int v, int reg, int offset, int k, const std::vector<int>& sums, const std::vector<int>& guards) {
    for (const LoopProgram::Store& s : p_.stores) {
      if (s.value == v) a_.store(reg, general(s.pointer), offset);
    }
    for (std::size_t n = 0; n < p_.sums.size(); ++n) {
      const int sum = sums[n * static_cast<std::size_t>(vectors_) + static_cast<std::size_t>(k)];
      if (p_.sums[n] == v) a_.add(sum, sum, reg);
    }
    for (std::size_t n = 0; n < p_.guards.size(); ++n) {
      if (p_.guards[n] == v) a_.bit_and(guards[n], guards[n], reg);
    }
    if (last_use_[v] < v) release(v);
  }

  // d is none of the inputs, but may be the mask of a selection or the last operand of fma.
  void compute(const Value& value, int d, const std::array<int, 3>& in) {
    const int a = in[0], b = in[1], c = in[2];
    switch (value.op) {
      case Op::copy:
        if (value.from_mask) {
          a_.bit_and(d, one_, a);
        } else {
          a_.move(d, a);
        }
        break;
      case Op::neg:
        a_.negate(d, a);
        break;
      case Op::reciprocal:
        a_.div(d, one_, a);
        break;
      case Op::square:
        a_.mul(d, a, a);
        break;
      case Op::abs:
        a_.absolute(d, a);
        break;
      case Op::sign: {  // 1 with the sign of a where |a| > 0; otherwise a itself, which is 0 or NaN
        const int size = take_register(), nonzero = take_register();
        a_.absolute(size, a);
        a_.positive(nonzero, size);
        a_.bit_xor(d, size, a);  // the sign bit
        a_.bit_or(d, d, one_);
        a_.select(d, nonzero, d, a);
        give_back(nonzero);
        give_back(size);
        break;
      }
      case Op::sqrt:
        a_.root(d, a);
        break;
      case Op::rsqrt:
        a_.root(d, a);
        a_.div(d, one_, d);
        break;
      case Op::floor:
        a_.round(d, a, Assembler::Rounding::floor);
        break;
      case Op::ceil:
        a_.round(d, a, Assembler::Rounding::ceil);
        break;
      case Op::round:
        a_.round(d, a, Assembler::Rounding::nearest);
        break;
      case Op::trunc:
        a_.round(d, a, Assembler::Rounding::trunc);
        break;
      case Op::add:
        a_.add(d, a, b);
        break;
      case Op::sub:
        a_.sub(d, a, b);
        break;
      case Op::mul:
        a_.mul(d, a, b);
        break;
      case Op::div:
        a_.div(d, a, b);
        break;
      case Op::maximum:
      case Op::minimum: {
        const int spare = take_register();
        value.op == Op::maximum ? a_.maximum(d, a, b, spare) : a_.minimum(d, a, b, spare);
        give_back(spare);
        break;
      }
      case Op::fma:
        a_.fma(d, a, b, c);
        break;
      case Op::where:
        a_.select(d, a, b, c);
        break;
      case Op::eq:
        a_.equal(d, a, b);
        break;
      case Op::ne:
      case Op::isnan: {
        const int same = take_register();
        a_.equal(same, a, value.op == Op::ne ? b : a);
        a_.bit_not(d, same);
        give_back(same);
        break;
      }
      case Op::lt:
        a_.less(d, a, b);
        break;
      case Op::le:
        a_.less_equal(d, a, b);
        break;
      case Op::gt:
        a_.less(d, b, a);
        break;
      case Op::ge:
        a_.less_equal(d, b, a);
        break;
      case Op::logical_and:
        a_.bit_and(d, a, b);
        break;
      case Op::logical_or:
        a_.bit_or(d, a, b);
        break;
      case Op::logical_xor:
        a_.bit_xor(d, a, b);
        break;
      case Op::logical_not:
        a_.bit_not(d, a);
        break;
      default:
        failed_ = true;
        break;
    }
  }

  const LoopProgram& p_;
  Assembler a_;
  const int vectors_ = static_cast<int>(kLoopGroup) * element_bytes() / Assembler::kVectorBytes;
  std::vector<int> free_, register_of_, last_use_, moving_;
  int one_ = -1;  // holds 1 in every lane, where an operation needs it
  bool failed_ = false;
};

}  // namespace
#endif

std::shared_ptr<const NativeLoop> make_native_loop(const LoopProgram& program) {
#if EBB_NATIVE_LOOPS
  if (!native_loops_usable()) return nullptr;
  const std::vector<std::uint8_t> code = Emitter(program).run();
  if (code.empty() || program.pointers > static_cast<int>(kMaxLoopPointers)) return nullptr;
  auto loop = std::make_shared<const NativeLoop>(code);
  return loop->ready() ? loop : nullptr;
#else
  (void)program;
  return nullptr;
#endif
}

}  // namespace ebb::cpu
