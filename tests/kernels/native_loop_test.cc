#include "cpu/native_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/tile_kernels.h"

// Loops of machine code against the tile kernels they stand for, bit by bit.
namespace ebb::cpu {
namespace {

template <class T>
std::vector<T> numbers(std::size_t n, unsigned seed) {
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

struct Case {
  Op op;
  int arity;
  unsigned masks;  // bit k: operand k is a mask
};
const Case kCases[] = {
    {Op::copy, 1, 0},       {Op::neg, 1, 0},         {Op::reciprocal, 1, 0},  {Op::square, 1, 0},
    {Op::abs, 1, 0},        {Op::sign, 1, 0},        {Op::sqrt, 1, 0},        {Op::rsqrt, 1, 0},
    {Op::floor, 1, 0},      {Op::ceil, 1, 0},        {Op::round, 1, 0},       {Op::trunc, 1, 0},
    {Op::isnan, 1, 0},      {Op::add, 2, 0},         {Op::sub, 2, 0},         {Op::mul, 2, 0},
    {Op::div, 2, 0},        {Op::maximum, 2, 0},     {Op::minimum, 2, 0},     {Op::fma, 3, 0},
    {Op::where, 3, 1},      {Op::eq, 2, 0},          {Op::ne, 2, 0},          {Op::lt, 2, 0},
    {Op::le, 2, 0},         {Op::gt, 2, 0},          {Op::ge, 2, 0},          {Op::logical_and, 2, 3},
    {Op::logical_or, 2, 3}, {Op::logical_xor, 2, 3}, {Op::logical_not, 1, 1},
};

template <class T>
void check_operation(const Case& c) {
  constexpr bool kWide = sizeof(T) == 8;
  constexpr std::size_t kCount = 16 * 40;
  std::vector<T> in[3];
  for (int k = 0; k < 3; ++k)
    in[k] = c.masks >> k & 1 ? masks<T>(kCount, 7u + static_cast<unsigned>(k))
                             : numbers<T>(kCount, 3u + static_cast<unsigned>(k));
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
  ASSERT_EQ(loop != nullptr, native_loops_usable());  // other processors have the steps
  if (!loop) return;
  void* pointers[4];
  for (int k = 0; k < c.arity; ++k) pointers[k] = in[k].data();
  pointers[c.arity] = got.data();
  alignas(32) std::byte state[kMaxLoopState] = {};
  loop->run(pointers, kCount / kLoopGroup, state);
  expect_same_bits(got, want, info(c.op).name);
}

TEST(NativeLoop, EveryOperationHasTheBitsOfItsTileKernel) {
  for (const Case& c : kCases) {
    EXPECT_TRUE(has_native_form(c.op)) << info(c.op).name;
    check_operation<float>(c);
    check_operation<double>(c);
  }
}

// Huber's loss and gradient with a weight: numbers, sums, a mask that becomes a number, a guard and several outputs.
template <class T>
void check_formula(std::size_t groups) {
  const std::size_t n = groups * kLoopGroup;
  std::vector<T> x = numbers<T>(n, 1), y = numbers<T>(n, 2), gradient(n, T(77)), inside(n, T(77));
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
  ASSERT_EQ(loop != nullptr, native_loops_usable());  // other processors have the steps
  if (!loop) return;
  void* pointers[] = {x.data(), y.data(), &delta, &low, gradient.data(), inside.data()};
  alignas(32) std::byte state[kMaxLoopState];
  std::memset(state, 0x5A, sizeof state);
  loop->run(pointers, groups, state);
  T sums[2][kLoopGroup] = {};
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

TEST(NativeLoop, ComputesAFormulaInOneGo) {
  for (std::size_t groups : {0, 1, 2, 7}) {
    check_formula<float>(groups);
    check_formula<double>(groups);
  }
}

// Tests force slower targets; this processor's code would not be theirs.
TEST(NativeLoop, IsNotMadeForATargetThatHasNone) {
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

TEST(NativeLoop, IsNotMadeWhenRegistersDoNotSuffice) {
  LoopProgram p;
  for (int k = 0; k < 12; ++k) p.values.push_back({.source = LoopProgram::Source::tile, .pointer = p.pointers++});
  for (int k = 0; k < 12; ++k)
    for (int j = 0; j < 12; ++j) p.values.push_back({.op = Op::add, .arg = {k, j, -1}});
  for (int k = 12; k + 1 < 156; ++k) p.values.push_back({.op = Op::mul, .arg = {k, 167 - k, -1}});
  p.stores.push_back({static_cast<int>(p.values.size()) - 1, p.pointers++});
  EXPECT_EQ(make_native_loop(p), nullptr);
}

}  // namespace
}  // namespace ebb::cpu
