// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "cases/all_cases.h"
#include "cpu/jit/code.h"
#include "graph/op_table.h"

// NEON, AVX2 and AVX-512 have assemblers of their own. Every operation has the same bits on each target of this
// architecture that the processor supports, with as many vectors side by side as registers allow. For other targets the
// code is generated but not run.
namespace ebb::cpu {
namespace {

constexpr std::size_t kElements = 256, kBlocks = 2;

struct Target {
  LoopTarget target;
  const char* name;
  bool runs;
};
std::vector<Target> targets() {
#if defined(__x86_64__)
  return {{LoopTarget::avx2, "AVX2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
          {LoopTarget::avx512, "AVX-512",
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")}};
#elif defined(__aarch64__)
  return {{LoopTarget::neon, "NEON", true}};
#else
  return {};
#endif
}

struct LoopBuilder {
  LoopProgram p;
  std::vector<table::Domain> domains;  // for each pointer, the range of ordinary numbers
  explicit LoopBuilder(bool wide) { p.wide = wide; }
  int push(const LoopProgram::Value& v) {
    p.values.push_back(v);
    return static_cast<int>(p.values.size()) - 1;
  }
  int tile(const table::Domain& domain = {{-4, 4}}, Stored stored = Stored::as_computed) {
    domains.resize(static_cast<std::size_t>(p.pointers), {{-4, 4}});
    domains.push_back(domain);
    return push({.source = LoopProgram::Source::tile, .pointer = p.pointers++, .stored = stored});
  }
  int number() { return push({.source = LoopProgram::Source::number, .pointer = p.pointers++}); }
  table::Domain domain(int pointer) const {
    const auto k = static_cast<std::size_t>(pointer);
    return k < domains.size() ? domains[k] : table::Domain{{-4, 4}};
  }
  int op(Op op, int a, int b = -1, int c = -1) { return push({.op = op, .arg = {a, b, c}}); }
  int of_mask(int mask) { return push({.arg = {mask, -1, -1}, .from_mask = true}); }
  int round_to(Stored stored, int a) { return push({.arg = {a, -1, -1}, .stored = stored}); }
  void store(int value, Stored stored = Stored::as_computed) { p.stores.push_back({value, p.pointers++, stored}); }
};

// The first block has numbers of the domain, the second has any.
template <class T>
std::vector<T> loop_numbers(unsigned seed, const table::Domain& domain) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {0,
                       -T{0},
                       1,
                       -1,
                       Limits::infinity(),
                       -Limits::infinity(),
                       Limits::quiet_NaN(),
                       Limits::max(),
                       Limits::min(),
                       Limits::denorm_min(),
                       T{-87.5},
                       T{0.5},
                       T{2.5},
                       T{65520},
                       T{1e-7},
                       -Limits::max()};
  std::mt19937 g(seed);
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<T> v(kElements * kBlocks);
  for (T& x : v) {
    const auto& [low, high] = domain[g() % domain.size()];
    x = static_cast<T>(low + (high - low) * part(g));
  }
  for (std::size_t k = 0; k < kElements / 2; ++k) v[kElements + 2 * k] = special[g() % std::size(special)];
  return v;
}

// Results of a loop: its outputs, its sums, and whether its guards held.
struct Left {
  std::vector<std::uint8_t> stored, sums;
  std::vector<bool> held;  // of each block and guard
  bool operator==(const Left&) const = default;
};

// Runs a target's loop on the same numbers; where a guard for ordinary numbers fails, the block's results are void.
// With `left_out`, only the first block, without so many of its last elements: empty if the loop cannot do that.
Left run_loop(const LoopBuilder& program, LoopTarget target, const std::vector<std::uint8_t>& bytes, int side_by_side,
              std::size_t left_out = 0) {
  const LoopProgram& p = program.p;
  const LoopCode code = lower(p);
  const int vectors = vectors_in_a_group(target, code.wide);
  const std::size_t group = kLoopGroup * static_cast<std::size_t>(std::max(1, side_by_side / vectors));
  const std::size_t guards = code.guards.size() + (code.ordinary.empty() ? 0 : 1), size = p.wide ? 8 : 4;
  const std::size_t lanes = code.sums.size() * kLoopGroup * size, state_bytes = lanes + guards * kGuardBytes;
  const NativeLoop loop(bytes, group, static_cast<int>(guards), state_bytes, rests_of(code, target, side_by_side),
                        p.wide);
  if (!loop.ready() || (left_out > 0 && !loop.takes_rest())) return {};

  std::vector<std::vector<std::uint64_t>> memory;  // of each pointer
  for (int k = 0; k < p.pointers; ++k) {
    auto& m = memory.emplace_back(kElements * kBlocks, 0x5A5A5A5A5A5A5A5Au);
    const auto fill = [&](const auto& v) { std::memcpy(m.data(), v.data(), v.size() * sizeof v[0]); };
    for (const LoopProgram::Value& v : p.values) {
      if (v.pointer != k) continue;
      const unsigned seed = static_cast<unsigned>(k) + 7;
      if (v.stored != Stored::as_computed) {  // every second half is an ordinary one
        std::vector<std::uint16_t> halves(kElements * kBlocks);
        std::mt19937 g(seed);
        for (std::uint16_t& h : halves) h = static_cast<std::uint16_t>(g());
        fill(halves);
      } else if (p.wide) {
        fill(loop_numbers<double>(seed, program.domain(k)));
      } else {
        fill(loop_numbers<float>(seed, program.domain(k)));
      }
    }
  }
  std::vector<void*> pointers;
  for (auto& m : memory) pointers.push_back(m.data());
  std::vector<std::uint64_t> state(kBlocks * state_bytes / 8 + 8);
  const std::size_t elements = kElements - left_out, blocks = left_out > 0 ? 1 : kBlocks;
  loop.run(pointers.data(), elements / group, state.data(), blocks, elements % group);

  Left left;
  const auto* const s = reinterpret_cast<const std::uint8_t*>(state.data());
  for (std::size_t block = 0; block < blocks; ++block) {
    bool ordinary = true;
    for (std::size_t guard = 0; guard < guards; ++guard) {
      const std::uint8_t* const g = s + block * state_bytes + lanes + guard * kGuardBytes;
      left.held.push_back(std::all_of(g, g + kGuardBytes, [](std::uint8_t b) { return b == 0xFF; }));
      if (guard >= code.guards.size()) ordinary = left.held.back();
    }
    if (!ordinary) continue;
    left.sums.insert(left.sums.end(), s + block * state_bytes, s + block * state_bytes + lanes);
    for (const LoopProgram::Store& store : p.stores) {
      const std::size_t bytes_each = store.stored == Stored::as_computed ? size : 2;
      const auto* const m =
          reinterpret_cast<const std::uint8_t*>(memory[static_cast<std::size_t>(store.pointer)].data());
      left.stored.insert(left.stored.end(), m + block * kElements * bytes_each,
                         m + (block * kElements + elements) * bytes_each);
      const auto untouched = [](std::uint8_t b) { return b == 0x5A; };
      const auto* const end = m + kElements * bytes_each;
      EXPECT_TRUE(left_out == 0 || std::all_of(m + elements * bytes_each, end, untouched)) << "written behind the end";
    }
  }
  return left;
}

void expect_the_same(const LoopBuilder& program, const std::string& what) {
  Left first;
  int made = 0;
  for (const Target& t : targets()) {
    for (const int side_by_side : {1, 2, 4, 8}) {
      const std::vector<std::uint8_t> bytes = emit(lower(program.p), t.target, side_by_side);
      EXPECT_TRUE(side_by_side > 1 || !bytes.empty()) << what << ", " << t.name;
      if (bytes.empty() || !t.runs) continue;
      const Left left = run_loop(program, t.target, bytes, side_by_side);
      EXPECT_FALSE(left.stored.empty()) << what << ", " << t.name << ": the block of ordinary numbers was given up";
      if (made++ == 0) first = left;
      EXPECT_TRUE(left == first) << what << ", " << t.name << ", " << side_by_side << " vectors side by side";
    }
  }
}

// Elements behind the last turn: the values that they have in a turn, nothing else is written, and sums and guards are
// those of these elements alone.
void expect_rests(const LoopBuilder& program, const std::string& what) {
  for (const std::size_t left_out : {1, 3, 15, 16, 17, 31, 40, 63, 100, 255}) {
    Left first;
    int made = 0;
    for (const Target& t : targets()) {
      for (const int side_by_side : {1, 2, 4, 8}) {
        const std::vector<std::uint8_t> bytes = emit(lower(program.p), t.target, side_by_side);
        const Rests rests = rests_of(lower(program.p), t.target, side_by_side);
        if (bytes.empty() || !t.runs || rests == Rests::by_steps) continue;
        const Left left = run_loop(program, t.target, bytes, side_by_side, left_out);
        EXPECT_FALSE(left.stored.empty()) << what << ", " << t.name << ": ordinary numbers were given up";
        const Left whole = run_loop(program, t.target, bytes, side_by_side);
        EXPECT_TRUE(std::equal(left.stored.begin(), left.stored.end(), whole.stored.begin()))
            << what << ", " << t.name << ", " << side_by_side << " vectors side by side, all but " << left_out;
        if (made++ == 0) first = left;
        EXPECT_TRUE(left == first) << what << ", " << t.name << ", " << side_by_side
                                   << " vectors side by side, all but " << left_out;
      }
    }
  }
}

// The domain of each operand, from the cases that all tests of operations draw from.
table::Domain domain_of(Op op, std::size_t operand) {
  for (const table::Case& c : table::all_cases()) {
    if (c.op == op && operand < c.inputs.size() && c.inputs[operand].kind == table::Input::Kind::real)
      return c.inputs[operand].domain;
  }
  return {{-4, 4}};
}

bool gives_mask(Op op) {
  return info(op).domain == OpDomain::truth || op == Op::isnan || op == Op::eq || op == Op::ne || op == Op::lt ||
         op == Op::le || op == Op::gt || op == Op::ge;
}

// Counts as skipped if the tests below only generate a target's code.
TEST(LoopTargets, AllRunOnThisProcessor) {
  for (const Target& t : targets()) {
    if (!t.runs) GTEST_SKIP() << "this processor has no " << t.name;
  }
}

TEST(LoopTargets, HaveTheSameBitsForEveryOperation) {
  int seen = 0;
  for (std::size_t k = 0; k < std::size(kOpTable); ++k) {
    const Op op = static_cast<Op>(k);
    if (info(op).cls != OpClass::elementwise) continue;
    for (const bool wide : {false, true}) {
      if (!has_native_form(op, wide)) continue;
      ++seen;
      LoopBuilder p(wide);
      const int x = p.tile(domain_of(op, 0)), y = p.tile(domain_of(op, 1)), z = p.tile(domain_of(op, 2));
      const int a = info(op).domain == OpDomain::truth || op == Op::where ? p.op(Op::lt, x, y) : x;
      const int b = info(op).domain == OpDomain::truth ? p.op(Op::lt, y, z) : y;
      const int result = p.op(op, a, info(op).arity > 1 ? b : -1, info(op).arity > 2 ? z : -1);
      const int value = gives_mask(op) ? p.of_mask(result) : result;
      p.store(value);
      p.p.sums = {value};
      if (gives_mask(op)) p.p.guards = {result};
      expect_the_same(p, std::string(info(op).name) + (wide ? " of f64" : " of f32"));
      expect_rests(p, std::string(info(op).name) + (wide ? " of f64" : " of f32"));
    }
  }
  EXPECT_GT(seen, 60);
}

TEST(LoopTargets, ReadAndWriteHalves) {
  for (const Stored from : {Stored::bf16, Stored::f16}) {
    for (const Stored to : {Stored::bf16, Stored::f16, Stored::as_computed}) {
      LoopBuilder p(false);
      const int x = p.tile({{-4, 4}}, from), y = p.tile({{-4, 4}}, to == Stored::as_computed ? from : to),
                scale = p.number();
      const int sum = p.op(Op::fma, x, scale, y);
      p.store(to == Stored::as_computed ? sum : p.round_to(to, sum), to);
      p.p.sums = {sum};
      expect_the_same(p, "halves");
      expect_rests(p, "halves");
    }
  }
}

// More values at a time than there are registers: some are spilled to the stack.
TEST(LoopTargets, SpillAlike) {
  for (const bool wide : {false, true}) {
    LoopBuilder p(wide);
    const int x = p.tile(), y = p.tile(), scale = p.number();
    std::vector<int> kept{p.op(Op::mul, x, y)};
    for (int k = 0; k < 40; ++k) kept.push_back(p.op(Op::fma, kept.back(), k % 2 == 0 ? x : scale, y));
    int total = p.op(Op::sqrt, p.op(Op::abs, x));
    for (const int k : kept) total = p.op(Op::add, total, k);
    p.store(total);
    p.p.sums = {total, kept[0]};
    p.p.guards = {p.op(Op::lt, kept[1], total)};
    expect_the_same(p, wide ? "forty values of f64" : "forty values of f32");
    expect_rests(p, wide ? "forty values of f64" : "forty values of f32");
  }
}

TEST(LoopTargets, LeaveTooManyPointersToTheSteps) {
  LoopBuilder p(false);
  int total = p.tile();
  for (int k = 0; k < 20; ++k) total = p.op(Op::add, total, p.tile());
  p.store(total);
  for (const LoopTarget target : {LoopTarget::avx2, LoopTarget::avx512, LoopTarget::neon, LoopTarget::none}) {
    EXPECT_TRUE(emit(lower(p.p), target, 1).empty());
  }
}

}  // namespace
}  // namespace ebb::cpu
