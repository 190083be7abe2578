// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/format_error.h"
#include "cpu/tile/kernels.h"
#include "sweep/reference_math.h"

// Every elementwise operation × type × length × scalar mask on every target: against a scalar reference, nothing
// written outside the tile, the output allowed to be an input, and the same bits at every place of a tile.
namespace ebb::cpu {
namespace {

constexpr std::size_t kPad = 64;
const std::size_t kLengths[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,   14,   15,  16,
                                17, 18, 19, 20, 21, 23, 25, 27, 29, 31, 32, 33, 35, 37,   40,   43,  47,
                                48, 49, 53, 59, 61, 63, 64, 65, 66, 67, 68, 69, 70, 1023, 1024, 1025};

std::uint64_t as_bits(const void* p, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, size);
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Bytes of n elements: ordinary numbers mixed with special ones. Masks are all ones or zero.
std::vector<unsigned char> random_tile(RegType type, std::size_t n, std::mt19937_64& rng) {
  const std::size_t size = size_of(type);
  std::vector<unsigned char> bytes(n * size);
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned pick = rng() % 16;
    const double real = static_cast<double>(static_cast<std::int64_t>(rng() % 20001) - 10000) / 1000;
    if (type == RegType::f32 || type == RegType::f64) {
      const double inf = HUGE_VAL;
      const double special[] = {0, -0.0, inf, -inf, NAN, 1, -1, 0.5};
      const double value = pick < 3 ? special[rng() % 8] : pick == 3 ? std::floor(real) : real;
      if (size == 4) {
        const float f = static_cast<float>(value);
        std::memcpy(&bytes[i * 4], &f, 4);
      } else {
        std::memcpy(&bytes[i * 8], &value, 8);
      }
    } else if (type == RegType::m32 || type == RegType::m64) {
      const std::uint64_t mask = rng() & 1 ? ~std::uint64_t{0} : 0;
      std::memcpy(&bytes[i * size], &mask, size);
    } else {
      std::int64_t value = static_cast<std::int64_t>(rng() % 41) - 20;
      const std::int64_t low = size == 4 ? INT32_MIN : INT64_MIN, high = size == 4 ? INT32_MAX : INT64_MAX;
      const std::int64_t special[] = {0, 1, -1, low, high, 2, -2, low + 1};
      if (pick < 3) value = special[rng() % 8];
      std::memcpy(&bytes[i * size], &value, size);
    }
  }
  return bytes;
}

// Returns "" or the error in the result of one element. Exact operations are compared bit
// for bit; the rest is compared with the oracle's double here, and with MPFR in
// accuracy_test.cc.
template <class T>
std::string verdict(Op op, RegType type, std::uint64_t ab, std::uint64_t bb, std::uint64_t cb, std::uint64_t got) {
  const T a = from_bits<T>(ab), b = from_bits<T>(bb), c = from_bits<T>(cb);
  const bool mask = type == RegType::m32 || type == RegType::m64;
  const std::uint64_t ones = sizeof(T) == 4 ? 0xffffffffu : ~std::uint64_t{0};
  const bool gives_truth =
      mask || (info(op).grad == OpGrad::none && op != Op::check && info(op).domain != OpDomain::bits);
  std::uint64_t want = 0;
  double tolerance = 0;
  if (op == Op::where) {
    want = ab ? bb : cb;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (op == Op::polygamma) return "";  // has a test of its own below
    if (gives_truth) {
      want = reference_real(op, {a, 0}, {b, 0}, {c, 0}).integer ? ones : 0;
    } else {
      const std::optional<T> step = reference_step(op, a, b, c);
      const T value = step ? *step : static_cast<T>(reference_real(op, {a, 0}, {b, 0}, {}).real);
      if (std::isnan(value)) return std::isnan(from_bits<T>(got)) ? "" : "should be NaN";
      want = as_bits(&value, sizeof(T));
      if (!step) tolerance = 8 * std::numeric_limits<T>::epsilon();
    }
  } else {
    const auto number = [mask](T x) { return Number{0, mask ? x != 0 : static_cast<std::int64_t>(x)}; };
    const auto value =
        static_cast<T>(reference_integer(op, mask ? 1 : 8 * sizeof(T), number(a), number(b), number(c)).integer);
    want = gives_truth ? (value ? ones : 0) : as_bits(&value, sizeof(T));
  }
  if (got == want) return "";
  if constexpr (std::is_floating_point_v<T>) {
    const double g = from_bits<T>(got), w = from_bits<T>(want);
    // Near their roots the size of the cancelling terms counts.
    const double terms = op == Op::lgamma || op == Op::digamma ? 1 : 0;
    if (tolerance > 0 && std::fabs(g - w) <= tolerance * std::max(std::fabs(w), terms)) return "";
  }
  return "of " + std::to_string(static_cast<double>(a)) + ", " + std::to_string(static_cast<double>(b)) + " is " +
         std::to_string(static_cast<double>(from_bits<T>(got))) + ", should be " +
         std::to_string(static_cast<double>(from_bits<T>(want)));
}

std::string verdict(Op op, RegType type, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t got) {
  switch (type) {
    case RegType::f32:
      return verdict<float>(op, type, a, b, c, got);
    case RegType::f64:
      return verdict<double>(op, type, a, b, c, got);
    case RegType::i32:
    case RegType::m32:
      return verdict<std::int32_t>(op, type, a, b, c, got);
    default:
      return verdict<std::int64_t>(op, type, a, b, c, got);
  }
}

bool is_floating(RegType t) { return t == RegType::f32 || t == RegType::f64; }
bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }

// Mask 0 has to exist where the operation has a meaning: by its domain, and what the schedule does with truth values.
bool must_exist(Op op, RegType type) {
  const OpDomain domain = info(op).domain;
  if (is_floating(type)) return domain != OpDomain::truth && domain != OpDomain::bits;
  if (!is_mask(type)) return domain == OpDomain::number || domain == OpDomain::any || domain == OpDomain::bits;
  return domain == OpDomain::truth || op == Op::copy || op == Op::where || op == Op::eq || op == Op::ne;
}

void check(const TileKernels& kernels, Op op, RegType type) {
  const std::size_t size = size_of(type);
  const RegType mask_type = size == 4 ? RegType::m32 : RegType::m64;
  std::mt19937_64 rng(static_cast<unsigned>(op) * 8 + static_cast<unsigned>(type));
  for (unsigned scalar_mask = 0; scalar_mask < 8; ++scalar_mask) {
    const ElementwiseFn fn = kernels.elementwise(op, type, scalar_mask);
    if (!fn || scalar_mask >= 1u << info(op).arity) continue;
    for (std::size_t n : kLengths) {
      std::vector<unsigned char> in[3];
      for (int k = 0; k < 3; ++k) in[k] = random_tile(k == 0 && op == Op::where ? mask_type : type, n + 1, rng);
      if (op == Op::polygamma)  // orders 0 to 3
        for (std::size_t i = 0; i <= n; ++i) {
          const std::uint64_t order = rng() % 4;
          if (size == 4) {
            const float f = static_cast<float>(order);
            std::memcpy(&in[0][i * 4], &f, 4);
          } else {
            const double f = static_cast<double>(order);
            std::memcpy(&in[0][i * 8], &f, 8);
          }
        }
      std::vector<unsigned char> out(n * size + 2 * kPad, 0xa5);
      fn(out.data() + kPad, in[0].data(), info(op).arity > 1 ? in[1].data() : nullptr,
         info(op).arity > 2 ? in[2].data() : nullptr, n);
      for (std::size_t i = 0; i < kPad; ++i) {
        ASSERT_EQ(out[i], 0xa5) << info(op).name << " writes before the tile, n = " << n;
        ASSERT_EQ(out[kPad + n * size + i], 0xa5) << info(op).name << " writes behind the tile, n = " << n;
      }
      for (std::size_t i = 0; i < n; ++i) {
        const auto value = [&](int k) { return as_bits(&in[k][(scalar_mask >> k & 1 ? 0 : i) * size], size); };
        const std::string wrong = verdict(op, type, value(0), value(1), value(2), as_bits(&out[kPad + i * size], size));
        ASSERT_EQ(wrong, "") << kernels.target << " " << info(op).name << " type " << static_cast<int>(type) << " mask "
                             << scalar_mask << " n " << n << " element " << i;
      }
      // The output may be any input that is a tile, and an element's bits do not depend on its neighbours.
      for (int k = 0; k < info(op).arity && n > 0; ++k) {
        if (scalar_mask >> k & 1) continue;
        std::vector<unsigned char> same = in[k];
        const void* arg[3] = {in[0].data(), in[1].data(), in[2].data()};
        arg[k] = same.data();
        fn(same.data(), arg[0], arg[1], arg[2], n);
        ASSERT_EQ(std::memcmp(same.data(), out.data() + kPad, n * size), 0)
            << info(op).name << " differs when its output is input " << k << ", n = " << n;
      }
      if (n > 40 && scalar_mask == 0) {
        const std::size_t at = rng() % (n - 1);
        std::vector<unsigned char> one(size);
        fn(one.data(), in[0].data() + at * size, in[1].data() + at * size, in[2].data() + at * size, 1);
        const auto is_nan = [&](const unsigned char* p) {  // the sign does not matter
          float f;
          double d;
          std::memcpy(&f, p, sizeof f);
          if (size == sizeof d) std::memcpy(&d, p, sizeof d);
          return (type == RegType::f32 && f != f) || (type == RegType::f64 && d != d);
        };
        const bool both_nan = is_nan(one.data()) && is_nan(out.data() + kPad + at * size);
        ASSERT_TRUE(both_nan || std::memcmp(one.data(), out.data() + kPad + at * size, size) == 0)
            << kernels.target << " " << info(op).name << " gives other bits for an element alone";
      }
    }
  }
}

class Elementwise : public ::testing::TestWithParam<int> {};
TEST_P(Elementwise, AgreesWithTheScalarReference) {
  const Op op = static_cast<Op>(GetParam());
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t)
    for (int type = 0; type < kRegTypeCount; ++type) {
      ASSERT_TRUE(!must_exist(op, static_cast<RegType>(type)) ||
                  targets.begin_[t]->elementwise(op, static_cast<RegType>(type), 0))
          << info(op).name << " is missing for type " << type;
      check(*targets.begin_[t], op, static_cast<RegType>(type));
    }
}
std::vector<int> elementwise_ops() {
  std::vector<int> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (kOpTable[i].cls == OpClass::elementwise && static_cast<Op>(i) != Op::cast) ops.push_back(i);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Ops, Elementwise, ::testing::ValuesIn(elementwise_ops()),
                         [](const auto& p) { return std::string(kOpTable[p.param].name); });

TEST(Elementwise, PolygammaKnowsItsValues) {
  const TileKernels& k = tile_kernels();
  const double pi = 3.14159265358979323846, zeta3 = 1.2020569031595942854;
  const double order[] = {0, 1, 1, 2, 3, 1, 2, 0, 1};
  const double x[] = {1, 1, 0.5, 1, 1, -0.5, -0.5, -0.5, -1000.25};
  const double want[] = {-0.57721566490153286,   pi * pi / 6,     pi * pi / 2,         -2 * zeta3,
                         pi * pi * pi * pi / 15, pi * pi / 2 + 4, -0.8287966442343199, 0.03648997397857652,
                         19.738209551699785};
  double got[9];
  k.elementwise(Op::polygamma, RegType::f64, 0)(got, order, x, nullptr, 9);
  for (int i = 0; i < 9; ++i) EXPECT_NEAR(got[i], want[i], 2e-14 * std::max(1.0, std::fabs(want[i]))) << i;
}

}  // namespace
}  // namespace ebb::cpu
