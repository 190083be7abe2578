// SPDX-License-Identifier: MIT
#include "cpu/jit/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "cpu/tile/kernels.h"

// Loops of machine code against the tile kernels they replace, bit by bit.
namespace ebb::cpu {
namespace {

template <class T>
std::vector<T> special_numbers(std::size_t n, unsigned seed) {
  using L = std::numeric_limits<T>;
  const T special[] = {
      0,        -T(0),           1,      -1,      L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(),
      L::min(), L::denorm_min(), T(0.5), T(-2.5), T(1.5),        T(2.5)};
  std::mt19937 g(seed);
  std::vector<T> v(n);
  for (T& x : v) x = g() % 3 == 0 ? special[g() % std::size(special)] : T(g() % 2000) / 300 - 3;
  return v;
}
template <class T>
std::vector<T> masks(std::size_t n, unsigned seed) {
  std::mt19937 g(seed);
  std::vector<T> v(n);
  for (T& x : v) std::memset(&x, g() % 2 ? 0xFF : 0, sizeof x);
  return v;
}
template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& want, std::string_view op) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) == 0 || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    ADD_FAILURE() << op << " element " << i << " is " << got[i] << ", the tile kernel gives " << want[i];
    return;
  }
}

// Each kind of instructions that this processor has loops of.
class NativeLoop : public ::testing::TestWithParam<const TileKernels*> {
 protected:
  void SetUp() override { force_tile_kernels(GetParam()); }
  void TearDown() override { force_tile_kernels(nullptr); }
};
std::vector<const TileKernels*> targets_with_loops() {
  std::vector<const TileKernels*> found;
  const TargetList all = tile_kernel_targets();
  for (std::size_t k = 0; k < all.count; ++k) {
    force_tile_kernels(all.begin_[k]);
    if (native_loops_usable()) found.push_back(all.begin_[k]);
  }
  force_tile_kernels(nullptr);
  return found;
}
INSTANTIATE_TEST_SUITE_P(Of, NativeLoop, ::testing::ValuesIn(targets_with_loops()),
                         [](const auto& p) { return std::string(p.param->target); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NativeLoop);  // other processors have the steps

struct LoopCase {
  Op op;
  int arity;
  unsigned masks;  // bit k: operand k is a mask
};
const LoopCase kLoopCases[] = {
    {Op::copy, 1, 0},       {Op::neg, 1, 0},         {Op::reciprocal, 1, 0},  {Op::square, 1, 0},
    {Op::abs, 1, 0},        {Op::sign, 1, 0},        {Op::sqrt, 1, 0},        {Op::rsqrt, 1, 0},
    {Op::floor, 1, 0},      {Op::ceil, 1, 0},        {Op::round, 1, 0},       {Op::trunc, 1, 0},
    {Op::isnan, 1, 0},      {Op::add, 2, 0},         {Op::sub, 2, 0},         {Op::mul, 2, 0},
    {Op::div, 2, 0},        {Op::maximum, 2, 0},     {Op::minimum, 2, 0},     {Op::fma, 3, 0},
    {Op::where, 3, 1},      {Op::eq, 2, 0},          {Op::ne, 2, 0},          {Op::lt, 2, 0},
    {Op::le, 2, 0},         {Op::gt, 2, 0},          {Op::ge, 2, 0},          {Op::logical_and, 2, 3},
    {Op::logical_or, 2, 3}, {Op::logical_xor, 2, 3}, {Op::logical_not, 1, 1},
};

bool holds(const std::byte* guard) {
  return std::all_of(guard, guard + kGuardBytes, [](std::byte b) { return b == std::byte{0xFF}; });
}

template <class T>
void check_operation(const LoopCase& c) {
  constexpr bool kWide = sizeof(T) == 8;
  constexpr std::size_t kCount = 16 * 40;
  std::vector<T> in[3];
  for (int k = 0; k < 3; ++k)
    in[k] = c.masks >> k & 1 ? masks<T>(kCount, 7u + static_cast<unsigned>(k))
                             : special_numbers<T>(kCount, 3u + static_cast<unsigned>(k));
  const RegType numbers_type = kWide ? RegType::f64 : RegType::f32, mask_type = kWide ? RegType::m64 : RegType::m32;
  const ElementwiseFn fn =
      tile_kernels().elementwise(c.op, c.masks == 0 || c.op == Op::where ? numbers_type : mask_type, 0);
  ASSERT_NE(fn, nullptr);
  std::vector<T> want(kCount), got(kCount);
  fn(want.data(), in[0].data(), in[1].data(), in[2].data(), kCount);

  LoopProgram p;
  p.wide = kWide;
  LoopProgram::Value v{.op = c.op};
  for (int k = 0; k < c.arity; ++k) {
    p.values.push_back({.source = LoopProgram::Source::tile, .pointer = p.pointers++});
    v.arg[static_cast<std::size_t>(k)] = k;
  }
  p.values.push_back(v);
  p.stores.push_back({c.arity, p.pointers++});
  const auto loop = make_native_loop(p);
  ASSERT_NE(loop, nullptr);
  void* pointers[4];
  for (int k = 0; k < c.arity; ++k) pointers[k] = in[k].data();
  pointers[c.arity] = got.data();
  alignas(kGuardBytes) std::byte state[kMaxLoopState] = {};
  loop->run(pointers, kCount / loop->group(), state, 1);
  expect_same_bits(got, want, info(c.op).name);
}

TEST_P(NativeLoop, EveryOperationHasTheBitsOfItsTileKernel) {
  for (const LoopCase& c : kLoopCases) {
    EXPECT_TRUE(has_native_form(c.op, false)) << info(c.op).name;
    check_operation<float>(c);
    check_operation<double>(c);
  }
}

// Halves in memory, read, rounded to and written, as by the tile kernels: every half, and numbers in
// between.
TEST_P(NativeLoop, HalvesHaveTheBitsOfTheTileKernels) {
  for (const auto& [stored, dtype] : {std::pair{Stored::bf16, DType::bf16}, std::pair{Stored::f16, DType::f16}}) {
    constexpr std::size_t kCount = 1 << 16;
    std::vector<std::uint16_t> halves(kCount);
    for (std::size_t i = 0; i < kCount; ++i) halves[i] = static_cast<std::uint16_t>(i);
    std::vector<float> between = special_numbers<float>(kCount, 9), read(kCount), rounded(kCount), want(kCount);
    std::mt19937 g(3);
    for (std::size_t i = 0; i < kCount; i += 2) {
      const std::uint32_t bits = g();
      std::memcpy(&between[i], &bits, sizeof bits);
    }
    LoopProgram p;
    using V = LoopProgram::Value;
    using S = LoopProgram::Source;
    p.values = {V{.source = S::tile, .pointer = 0, .stored = stored}, V{.source = S::tile, .pointer = 1},
                V{.op = Op::copy, .arg = {1, -1, -1}, .stored = stored}};
    p.pointers = 6;
    p.stores = {{0, 2}, {2, 3}, {1, 4, stored}, {2, 5, stored}};
    const auto loop = make_native_loop(p);
    ASSERT_NE(loop, nullptr);
    std::vector<std::uint16_t> written(kCount), twice(kCount), expected(kCount);
    void* pointers[] = {halves.data(), between.data(), read.data(), rounded.data(), written.data(), twice.data()};
    alignas(kGuardBytes) std::byte state[kMaxLoopState];
    loop->run(pointers, kCount / loop->group(), state, 1);
    tile_kernels().load(dtype, RegType::f32)(want.data(), halves.data(), 1, kCount);
    expect_same_bits(read, want, "read");
    tile_kernels().store(RegType::f32, dtype)(expected.data(), 1, between.data(), kCount);
    EXPECT_EQ(written, expected);
    EXPECT_EQ(twice, expected);
    tile_kernels().round(dtype)(want.data(), between.data(), nullptr, nullptr, kCount);
    expect_same_bits(rounded, want, "rounded");
  }
}

// Functions of ordinary numbers; for others a guard fails.
template <class T>
void check_function(Op op, double low, double high) {
  constexpr bool kWide = sizeof(T) == 8;
  ASSERT_TRUE(has_native_form(op, kWide)) << info(op).name;
  LoopProgram p;
  p.wide = kWide;
  p.values = {{.source = LoopProgram::Source::tile, .pointer = 0}, {.op = op, .arg = {0, -1, -1}}};
  p.pointers = 2;
  p.stores = {{1, 1}};
  p.sums = {1};
  const auto loop = make_native_loop(p);
  ASSERT_NE(loop, nullptr) << info(op).name;
  constexpr std::size_t kBlockSize = 320, kBlocks = 40;
  std::mt19937 g(5);
  std::uniform_real_distribution<double> even(std::max(low, -100.0), std::min(high, 100.0)), power(-126, 125);
  std::vector<T> x(kBlockSize * kBlocks), want(x.size()), got(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double far = std::exp2(power(g) * (kWide && i % 8 == 3 ? 8 : 1)) * (i % 4 == 1 ? -1 : 1);
    x[i] = static_cast<T>(std::clamp(i % 2 ? far : even(g), low, high));
  }
  x[7] = static_cast<T>(low), x[8] = static_cast<T>(high);
  if (low < 0) x[9] = T(0), x[10] = -T(0);
  const ElementwiseFn fn = tile_kernels().elementwise(op, kWide ? RegType::f64 : RegType::f32, 0);
  fn(want.data(), x.data(), nullptr, nullptr, x.size());
  void* pointers[] = {x.data(), got.data()};
  alignas(kGuardBytes) std::byte state[kBlocks * kMaxLoopState] = {};
  loop->run(pointers, kBlockSize / loop->group(), state, kBlocks);
  expect_same_bits(got, want, info(op).name);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    T lanes[kLoopGroup] = {};
    for (std::size_t i = 0; i < kBlockSize; ++i) lanes[i % kLoopGroup] += want[b * kBlockSize + i];
    const std::byte* of_block = state + b * loop->state_bytes();
    EXPECT_EQ(std::memcmp(lanes, of_block, sizeof lanes), 0) << info(op).name << " block " << b;
    EXPECT_TRUE(loop->guards() == 0 || holds(of_block + sizeof lanes)) << info(op).name << " block " << b;
  }
  // Outside, and NaN: in one block of many, in any lane.
  const T inf = std::numeric_limits<T>::infinity();
  for (T bad : {std::numeric_limits<T>::quiet_NaN(), inf, -inf}) {
    if (loop->guards() == 0) {
      x[kBlockSize + 5] = bad;
      fn(want.data(), x.data(), nullptr, nullptr, x.size());
      loop->run(pointers, kBlockSize / loop->group(), state, kBlocks);
      expect_same_bits(got, want, info(op).name);
      continue;
    }
    for (std::size_t at :
         {std::size_t{3} * kBlockSize, std::size_t{4} * kBlockSize - 1, std::size_t{3} * kBlockSize + 37}) {
      const T before = std::exchange(x[at], bad);
      loop->run(pointers, kBlockSize / loop->group(), state, kBlocks);
      x[at] = before;
      for (std::size_t b = 0; b < kBlocks; ++b)
        EXPECT_EQ(holds(state + b * loop->state_bytes() + sizeof(T) * kLoopGroup), b != 3)
            << info(op).name << " " << bad;
    }
  }
}

// pow in all its cases: bases and exponents of every kind side by side, and one exponent for the whole loop, from which
// the loop precomputes what it can. Where a guard fails there is nothing to compare.
void check_pow(bool one_exponent) {
  constexpr std::size_t kBlockSize = 64, kBlocks = 400;
  const float exponents[] = {0.65f, -0.35f,      2.0f,        3.0f, -1.0f, 0.5f,  1e-6f,
                             -2.5f, 16777216.0f, 16777215.0f, 0.0f, -0.0f, 300.0f};
  std::mt19937 g(11);
  std::uniform_real_distribution<double> power(-140, 127);
  std::size_t held = 0;
  for (const float exponent : exponents) {
    std::vector<float> x(kBlockSize * kBlocks), y(x.size(), exponent), want(x.size()), got(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double far = std::exp2(power(g)), near = static_cast<double>(g() % 2000) / 300;
      x[i] = static_cast<float>((i % 3 ? near : far) * (g() % 2 ? -1 : 1));
      if (!one_exponent && i % 5) y[i] = static_cast<float>(static_cast<int>(g() % 41) - 20) / (i % 2 ? 1.0f : 4.0f);
    }
    x[1] = 0.0f, x[2] = -0.0f, x[kBlockSize] = std::numeric_limits<float>::quiet_NaN();
    x[2 * kBlockSize + 3] = -std::numeric_limits<float>::infinity();
    LoopProgram p;
    p.values = {{.source = LoopProgram::Source::tile, .pointer = 0},
                {.source = one_exponent ? LoopProgram::Source::number : LoopProgram::Source::tile, .pointer = 1},
                {.op = Op::pow, .arg = {0, 1, -1}}};
    p.pointers = 3;
    p.stores = {{2, 2}};
    const auto loop = make_native_loop(p);
    ASSERT_NE(loop, nullptr);
    tile_kernels().elementwise(Op::pow, RegType::f32, 0)(want.data(), x.data(), y.data(), nullptr, x.size());
    void* pointers[] = {x.data(), y.data(), got.data()};
    alignas(kGuardBytes) static std::byte state[kBlocks * kMaxLoopState];
    loop->run(pointers, kBlockSize / loop->group(), state, kBlocks);
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const bool holds_here = holds(state + b * loop->state_bytes());
      held += holds_here;
      EXPECT_FALSE(holds_here && (b == 1 || b == 2));
      if (holds_here) continue;
      std::copy_n(want.begin() + static_cast<std::ptrdiff_t>(b * kBlockSize), kBlockSize,
                  got.begin() + static_cast<std::ptrdiff_t>(b * kBlockSize));
    }
    expect_same_bits(got, want, "pow");
  }
  if (one_exponent) {
    EXPECT_EQ(held, (std::size(exponents) - 2) * (kBlocks - 2));
  }
}
TEST_P(NativeLoop, PowHasTheBitsOfItsTileKernel) {
  if (!has_native_form(Op::pow, false)) return;
  check_pow(true);
  check_pow(false);
}

TEST_P(NativeLoop, EveryFunctionHasTheBitsOfItsTileKernel) {
  const double most = std::numeric_limits<float>::max();
  const auto both = [](Op op, double low, double high) {
    check_function<float>(op, low, high);
    check_function<double>(op, low, high);
  };
  both(Op::tanh, -most, most);
  both(Op::expm1, -16.5, 16.5);
  for (const Op op : {Op::exp, Op::sinh, Op::cosh}) both(op, -86.9, 86.9);
  both(Op::exp2, -125.9, 125.9);
  both(Op::log, std::numeric_limits<float>::min(), most);
  both(Op::log1p, std::nextafter(-1.0f, 0.0f), 0x1p125);
  both(Op::log1p_unit, 0, 1);
  check_function<float>(Op::erf, -most, most);
#if defined(__x86_64__)  // those of f32 that are computed in f64
  for (const Op op : {Op::sin, Op::cos}) check_function<float>(op, -0x1.fffffep19, 0x1.fffffep19);
  EXPECT_TRUE(has_native_form(Op::pow, false));
#endif
  // The ends of f64.
  const double far = std::numeric_limits<double>::max();
  for (const Op op : {Op::exp, Op::sinh, Op::cosh}) check_function<double>(op, -707.9, 707.9);
  check_function<double>(Op::exp2, -1021.9, 1021.9);
  check_function<double>(Op::log, std::numeric_limits<double>::min(), far);
  check_function<double>(Op::log1p, std::nextafter(-1.0, 0.0), 0x1p1021);
  check_function<double>(Op::expm1, -36.6, 36.6);
  check_function<double>(Op::tanh, -far, far);
#if defined(__x86_64__)
  for (const double end : {2.0, 30.0, far}) check_function<double>(Op::erf, -end, end);
#else
  EXPECT_FALSE(has_native_form(Op::erf, true));
#endif
  for (const Op op : {Op::sin, Op::pow, Op::lgamma}) EXPECT_FALSE(has_native_form(op, true)) << info(op).name;
}

// Huber's loss and gradient with a weight: numbers, sums, a mask that becomes a number, a guard and several outputs.
template <class T>
void check_formula(std::size_t groups) {
  const std::size_t n = groups * 4 * kLoopGroup;  // a turn of the loop has at most four groups
  std::vector<T> x = special_numbers<T>(n, 1), y = special_numbers<T>(n, 2), gradient(n, T(77)), inside(n, T(77));
  for (std::vector<T>* v : {&x, &y})
    for (T& e : *v)
      if (!(std::abs(e) < 1e6)) e = 1;
  T delta = T(0.75), low = -delta;
  LoopProgram p;
  p.wide = sizeof(T) == 8;
  using V = LoopProgram::Value;
  using S = LoopProgram::Source;
  p.values = {V{.source = S::tile, .pointer = 0},      V{.source = S::tile, .pointer = 1},
              V{.source = S::number, .pointer = 2},    V{.source = S::number, .pointer = 3},
              V{.op = Op::sub, .arg = {0, 1, -1}},     V{.op = Op::minimum, .arg = {4, 2, -1}},
              V{.op = Op::maximum, .arg = {5, 3, -1}}, V{.op = Op::abs, .arg = {4, -1, -1}},
              V{.op = Op::le, .arg = {7, 2, -1}},      V{.op = Op::copy, .arg = {8, -1, -1}, .from_mask = true}};
  p.pointers = 6;
  p.stores = {{6, 4}, {9, 5}};
  p.sums = {7, 9};
  p.guards = {8};
  const auto loop = make_native_loop(p);
  ASSERT_NE(loop, nullptr);
  void* pointers[] = {x.data(), y.data(), &delta, &low, gradient.data(), inside.data()};
  alignas(kGuardBytes) std::byte state[kMaxLoopState];
  std::memset(state, 0x5A, sizeof state);
  T sums[2][kLoopGroup];  // they continue from the previous values
  for (std::size_t k = 0; k < kLoopGroup; ++k) sums[0][k] = T(k) / 3, sums[1][k] = -T(k);
  std::memcpy(state, sums, sizeof sums);
  ASSERT_EQ(n % loop->group(), 0u);
  loop->run(pointers, n / loop->group(), state, 1);
  bool all = true;
  for (std::size_t i = 0; i < n; ++i) {
    const T d = x[i] - y[i], a = std::abs(d);
    EXPECT_EQ(gradient[i], std::clamp(d, low, delta)) << i;
    EXPECT_EQ(inside[i], a <= delta ? T(1) : T(0)) << i;
    sums[0][i % kLoopGroup] += a;
    sums[1][i % kLoopGroup] += inside[i];
    all = all && a <= delta;
  }
  EXPECT_EQ(std::memcmp(sums, state, sizeof sums), 0);
  bool guard = true;
  for (std::size_t k = 0; k < kGuardBytes; ++k)
    guard = guard && state[2 * kLoopGroup * sizeof(T) + k] == std::byte{0xFF};
  EXPECT_EQ(guard, all);
}

TEST_P(NativeLoop, ComputesAFormulaInOneGo) {
  for (std::size_t groups : {0, 1, 2, 7}) {
    check_formula<float>(groups);
    check_formula<double>(groups);
  }
}

// Tests force slower targets; this processor's code would not be theirs.
TEST(NativeLoops, AreNotMadeForATargetThatHasNone) {
  LoopProgram p;
  p.values = {{.source = LoopProgram::Source::tile, .pointer = p.pointers++}};
  p.stores = {{0, p.pointers++}};
  const TargetList targets = tile_kernel_targets();
  force_tile_kernels(targets.begin_[targets.count - 1]);  // the last is the scalar one
  const bool usable = native_loops_usable();
  const auto loop = make_native_loop(p);
  force_tile_kernels(nullptr);
  EXPECT_EQ(loop != nullptr, usable);
  EXPECT_EQ(usable, targets.count == 1 && native_loops_usable());
}

// More values at once than there are registers: those needed last are spilled to the stack.
TEST_P(NativeLoop, KeepsMoreValuesThanThereAreRegisters) {
  constexpr int kTerms = 40;
  LoopProgram p;
  p.values.push_back({.source = LoopProgram::Source::tile, .pointer = p.pointers++});
  std::vector<float> numbers(kTerms);
  for (int k = 0; k < kTerms; ++k) {
    numbers[static_cast<std::size_t>(k)] = 0.25f * static_cast<float>(k) - 3;
    p.values.push_back({.source = LoopProgram::Source::number, .pointer = 1 + k / 2});  // each is used twice
  }
  p.pointers += kTerms / 2;
  for (int k = 0; k < kTerms; ++k) p.values.push_back({.op = Op::add, .arg = {0, 1 + k, -1}});
  for (int k = 0; k + 1 < kTerms; ++k)  // the first sum is needed last
    p.values.push_back({.op = Op::fma, .arg = {static_cast<int>(p.values.size()) - 1, 2 * kTerms - 1 - k, 1 + kTerms}});
  const int result = static_cast<int>(p.values.size()) - 1;
  p.stores = {{result, p.pointers++}};
  const auto loop = make_native_loop(p);
  ASSERT_NE(loop, nullptr);
  std::vector<float> x(960), got(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.001f * static_cast<float>(i) - 0.3f;
  std::vector<void*> pointers{x.data()};
  for (int k = 0; k < kTerms; k += 2) pointers.push_back(&numbers[static_cast<std::size_t>(k)]);
  pointers.push_back(got.data());
  alignas(kGuardBytes) std::byte state[kMaxLoopState];
  loop->run(pointers.data(), x.size() / loop->group(), state, 1);
  std::vector<float> want(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto term = [&](int k) { return x[i] + numbers[static_cast<std::size_t>(k / 2 * 2)]; };
    float r = term(kTerms - 1);
    for (int k = 0; k + 1 < kTerms; ++k) r = std::fma(r, term(kTerms - 2 - k), term(0));
    want[i] = r;
  }
  expect_same_bits(got, want, "products");
}

TEST_P(NativeLoop, IsNotMadeWhenPointersDoNotSuffice) {
  LoopProgram p;
  for (int k = 0; k < 20; ++k) p.values.push_back({.source = LoopProgram::Source::tile, .pointer = p.pointers++});
  for (int k = 1; k < 20; ++k)
    p.values.push_back({.op = Op::add, .arg = {k, static_cast<int>(p.values.size()) - 1, -1}});
  p.stores.push_back({static_cast<int>(p.values.size()) - 1, p.pointers++});
  EXPECT_EQ(make_native_loop(p), nullptr);
}

}  // namespace
}  // namespace ebb::cpu
