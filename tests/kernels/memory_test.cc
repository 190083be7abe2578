// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/random.h"
#include "cpu/tile/kernels.h"

// Loads, stores, conversions, rounding, reductions and generated tiles on every target.
namespace ebb::cpu {
namespace {

template <class Body>
void on_every_target(Body body) {
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    SCOPED_TRACE(targets.begin_[t]->target);
    body(*targets.begin_[t]);
  }
}

TEST(Memory, HalvesComeBackFromF32Unchanged) {
  on_every_target([](const TileKernels& k) {
    for (DType dtype : {DType::f16, DType::bf16}) {
      std::vector<std::uint16_t> all(65536), back(65536);
      std::vector<float> wide(65536);
      for (int i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
      k.load(dtype, RegType::f32)(wide.data(), all.data(), 1, all.size());
      k.store(RegType::f32, dtype)(back.data(), 1, wide.data(), wide.size());
      for (int i = 0; i < 65536; ++i) {
        const float want = dtype == DType::f16 ? to_float(Half{all[i]}) : to_float(BFloat16{all[i]});
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(wide[i])) << i;
          ASSERT_GT(back[i] & 0x7fff, dtype == DType::f16 ? 0x7c00 : 0x7f80) << i;
        } else {
          ASSERT_EQ(wide[i], want) << i;
          ASSERT_EQ(back[i], all[i]);
        }
      }
    }
  });
}

// Around every half the float halfway to the next one, and its neighbours: ties to even, overflow, subnormals.
TEST(Memory, StoringHalvesRoundsToNearestEven) {
  on_every_target([](const TileKernels& k) {
    for (DType dtype : {DType::f16, DType::bf16}) {
      std::vector<float> x;
      for (int i = 0; i < 65536; i += 1) {
        const auto value = [&](int bits) {
          const std::uint16_t b = static_cast<std::uint16_t>(bits);
          return static_cast<double>(dtype == DType::f16 ? to_float(Half{b}) : to_float(BFloat16{b}));
        };
        const double middle = (value(i) + value(i + 1)) / 2;
        if (!std::isfinite(middle)) continue;
        const float m = static_cast<float>(middle);
        x.insert(x.end(), {m, std::nextafter(m, HUGE_VALF), std::nextafter(m, -HUGE_VALF)});
      }
      for (float f : {65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e30f, HUGE_VALF, -HUGE_VALF, NAN, 3.4e38f, 0x1p-149f,
                      0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f, -0.0f})
        x.push_back(f);
      std::vector<std::uint16_t> got(x.size());
      std::vector<float> rounded(x.size());
      k.store(RegType::f32, dtype)(got.data(), 1, x.data(), x.size());
      k.round(dtype)(rounded.data(), x.data(), nullptr, nullptr, x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint16_t want = dtype == DType::f16 ? half_from(x[i]).bits : bfloat16_from(x[i]).bits;
        const float value = dtype == DType::f16 ? to_float(Half{want}) : to_float(BFloat16{want});
        if (std::isnan(x[i])) {
          ASSERT_TRUE(std::isnan(rounded[i]));
          ASSERT_GT(got[i] & 0x7fff, dtype == DType::f16 ? 0x7c00 : 0x7f80);
        } else {
          ASSERT_EQ(got[i], want) << x[i];
          ASSERT_EQ(rounded[i], value) << x[i];
        }
      }
    }
  });
}

TEST(Memory, F64IsRoundedToHalfOnce) {
  // Halfway between two halves in f32, just above it in f64: two roundings would go to the even one below.
  const double x[] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40};
  on_every_target([&](const TileKernels& k) {
    std::uint16_t got[2];
    k.store(RegType::f64, DType::f16)(got, 1, x, 1);
    EXPECT_EQ(to_float(Half{got[0]}), 1 + 0x1p-10f);
    k.store(RegType::f64, DType::bf16)(got, 1, x + 1, 1);
    EXPECT_EQ(to_float(BFloat16{got[0]}), 1 + 0x1p-7f);
  });
}

// Small integers survive every path: load to any register type, store to any dtype, any stride, no write outside.
TEST(Memory, EveryPairLoadsAndStoresSmallIntegers) {
  on_every_target([](const TileKernels& k) {
    for (int d = 0; d < kDTypeCount; ++d)
      for (int r = 0; r < kRegTypeCount; ++r)
        for (std::ptrdiff_t stride : {1, 0, 3, -2})
          for (std::size_t n : {0, 1, 7, 16, 33, 70}) {
            const DType dtype = static_cast<DType>(d);
            const RegType reg = static_cast<RegType>(r);
            const bool is_bool = dtype == DType::bool_ || reg == RegType::m32 || reg == RegType::m64;
            std::vector<double> values(512);
            std::vector<unsigned char> memory(512 * 8), tile(70 * 8 + 64, 0xa5), back(512 * 8, 0xa5);
            for (std::size_t i = 0; i < 512; ++i)
              values[i] = static_cast<double>(is_bool ? i * 7 % 3 == 0 : i * 7 % 100);
            k.store(RegType::f64, dtype)(memory.data(), 1, values.data(), 512);
            const std::ptrdiff_t start = 256, bytes = static_cast<std::ptrdiff_t>(size_of(dtype));
            k.load(dtype, reg)(tile.data(), memory.data() + start * bytes, stride, n);
            for (std::size_t i = n * size_of(reg); i < tile.size(); ++i) ASSERT_EQ(tile[i], 0xa5);
            if (stride != 0) {
              k.store(reg, dtype)(back.data() + start * bytes, stride, tile.data(), n);
              std::size_t written = 0;
              for (std::ptrdiff_t i = 0; i < 512; ++i) {
                const std::ptrdiff_t offset = i - start;
                const bool inside = offset % stride == 0 && offset / stride >= 0 && offset / stride < std::ptrdiff_t(n);
                const unsigned char* p = back.data() + i * bytes;
                if (inside) {
                  ASSERT_EQ(std::memcmp(p, memory.data() + i * bytes, bytes), 0) << name(dtype) << " " << r;
                  ++written;
                } else {
                  for (std::ptrdiff_t b = 0; b < bytes; ++b) ASSERT_EQ(p[b], 0xa5);
                }
              }
              ASSERT_EQ(written, n);
            }
            // Back to f64 by convert: the same numbers.
            std::vector<double> plain(n + 1);
            k.convert(reg, RegType::f64)(plain.data(), tile.data(), nullptr, nullptr, n);
            for (std::size_t i = 0; i < n; ++i)
              ASSERT_EQ(plain[i], values[start + static_cast<std::ptrdiff_t>(i) * stride]);
          }
  });
}

TEST(Memory, MasksAreAllOnes) {
  const unsigned char bytes[] = {0, 1, 0, 1, 255};
  on_every_target([&](const TileKernels& k) {
    std::int64_t m64[5];
    std::int32_t m32[5];
    k.load(DType::bool_, RegType::m64)(m64, bytes, 1, 5);
    k.load(DType::bool_, RegType::m32)(m32, bytes, 1, 5);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(m64[i], bytes[i] ? -1 : 0);
      EXPECT_EQ(m32[i], bytes[i] ? -1 : 0);
    }
  });
}

TEST(Convert, FloatsSaturateAndNaNIsZero) {
  const float x[] = {NAN, HUGE_VALF, -HUGE_VALF, 2147483648.0f, -2147483648.0f, 3e9f, -3e9f, 1.9f, -1.9f, 0.5f, 1e20f};
  on_every_target([&](const TileKernels& k) {
    std::int32_t i32[11];
    std::int64_t i64[11];
    double wide[11];
    for (int i = 0; i < 11; ++i) wide[i] = x[i];
    const std::int32_t want32[] = {0,         INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX,
                                   INT32_MIN, 1,         -1,        0,         INT32_MAX};
    const std::int64_t want64[] = {0,           INT64_MAX, INT64_MIN, 2147483648, -2147483648, 3000000000,
                                   -3000000000, 1,         -1,        0,          INT64_MAX};
    k.convert(RegType::f32, RegType::i32)(i32, x, nullptr, nullptr, 11);
    k.convert(RegType::f32, RegType::i64)(i64, x, nullptr, nullptr, 11);
    for (int i = 0; i < 11; ++i) {
      EXPECT_EQ(i32[i], want32[i]);
      EXPECT_EQ(i64[i], want64[i]);
    }
    k.convert(RegType::f64, RegType::i32)(i32, wide, nullptr, nullptr, 11);
    k.convert(RegType::f64, RegType::i64)(i64, wide, nullptr, nullptr, 11);
    for (int i = 0; i < 11; ++i) {
      EXPECT_EQ(i32[i], want32[i]);
      EXPECT_EQ(i64[i], want64[i]);
    }
    // In place, narrowing and widening.
    double tile[11];
    std::memcpy(tile, x, sizeof(x));
    k.convert(RegType::f32, RegType::f64)(tile, tile, nullptr, nullptr, 11);
    for (int i = 1; i < 11; ++i) EXPECT_EQ(tile[i], wide[i]);
    k.convert(RegType::f64, RegType::f32)(tile, tile, nullptr, nullptr, 11);
    EXPECT_EQ(std::memcmp(reinterpret_cast<float*>(tile) + 1, x + 1, 40), 0);
  });
}

TEST(Convert, WrapsBytes) {
  on_every_target([](const TileKernels& k) {
    const std::int32_t x[] = {256, -1, 511, 7};
    std::int32_t wrapped[4];
    std::uint8_t bytes[4];
    k.round(DType::u8)(wrapped, x, nullptr, nullptr, 4);
    k.store(RegType::i32, DType::u8)(bytes, 1, x, 4);
    const int want[] = {0, 255, 255, 7};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(wrapped[i], want[i]);
      EXPECT_EQ(bytes[i], want[i]);
    }
  });
}

// The definition of the tree, element by element.
template <class T>
double tree(Op op, const T* a, std::size_t n) {
  const double identity = op == Op::sum ? 0 : op == Op::prod ? 1 : op == Op::max ? -HUGE_VAL : HUGE_VAL;
  const auto combine = [op](auto x, auto y) -> decltype(x) {
    switch (op) {
      case Op::sum:
        return x + y;
      case Op::prod:
        return x * y;
      case Op::max:
        return x > y || std::isnan(x) ? x : y;
      default:
        return x < y || std::isnan(x) ? x : y;
    }
  };
  double closed = identity, group = identity;
  for (std::size_t b = 0; b < n; b += kBlock) {
    T lane[16];
    for (T& l : lane) l = static_cast<T>(identity);
    for (std::size_t i = b; i < std::min(n, b + kBlock); ++i) lane[i % 16] = combine(lane[i % 16], a[i]);
    double result = lane[0];
    for (int l = 1; l < 16; ++l) result = combine(result, static_cast<double>(lane[l]));
    group = combine(group, result);
    if (b / kBlock % kBlocksPerGroup + 1 == kBlocksPerGroup) closed = combine(closed, group), group = identity;
  }
  return combine(closed, group);
}

template <class T>
void check_tree(const TileKernels& k, Op op, RegType reg) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> even(-2, 2), near_one(0.9, 1.1);
  for (std::size_t n :
       {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 100, 257, 1000, 1023, 1024, 1031, 70001}) {
    constexpr std::size_t rows = 7;  // four, and some by themselves
    std::vector<T> a(n * rows);      // nothing after the last row: the address sanitizer would report reads there
    for (T& x : a) x = static_cast<T>(op == Op::prod ? near_one(rng) : even(rng));
    for (int pass = 0; pass < 2; ++pass) {
      double acc[rows + 1] = {0.25, -3, 1, 0, -0.5, 2, -1, 77};
      const double before[rows] = {0.25, -3, 1, 0, -0.5, 2, -1};
      k.reduce(op, reg, DType::f32)(acc, a.data(), rows, n);
      EXPECT_EQ(acc[rows], 77);
      for (std::size_t r = 0; r < rows; ++r) {
        const double part = tree(op, a.data() + r * n, n);
        const double want = n == 0             ? before[r]
                            : op == Op::sum    ? before[r] + part
                            : op == Op::prod   ? before[r] * part
                            : std::isnan(part) ? part
                            : op == Op::max    ? std::max(before[r], part)
                                               : std::min(before[r], part);
        ASSERT_TRUE(std::memcmp(&acc[r], &want, 8) == 0 || (std::isnan(acc[r]) && std::isnan(want)))
            << info(op).name << " n " << n << " row " << r << ": " << acc[r] << " and " << want;
      }
      if (!a.empty()) a[a.size() / 2] = NAN;  // second pass: it must propagate
    }
  }
}

// Runs of rows side by side, with gaps between their columns where there is one run, in one call and in several.
template <class T, class A>
void check_beside(const TileKernels& k, RegType reg, bool real) {
  std::mt19937 rng(4);
  for (const std::size_t n : {1, 2, 7, 15, 16, 17, 33, 200, 1024}) {
    for (const std::size_t rows : {1, 2, 3, 5, 8, 15, 16, 17, 31, 50, 130}) {
      for (const std::size_t runs : {1, 3}) {
        const std::size_t step = runs == 1 ? rows + 5 : rows;
        std::vector<T> a(n * rows * runs), b(n * rows * runs), a_beside(n * step * runs), b_beside(n * rows * runs);
        for (std::size_t i = 0; i < a.size(); ++i) {
          a[i] =
              static_cast<T>(real ? static_cast<double>(rng() % 2001) / 999.0 - 1 : static_cast<double>(rng() % 9) - 4);
          b[i] = static_cast<T>(real ? static_cast<double>(rng() % 2001) / 999.0 - 1 : 1);
          if (real && i % 97 == 96) a[i] = static_cast<T>(i % 2 ? NAN : -0.0);
          const std::size_t row = i / n, column = i % n, run = row / rows;
          a_beside[run * n * rows + column * step + row % rows] = a[i];
          b_beside[run * n * rows + column * rows + row % rows] = b[i];
        }
        const auto expect_same = [&](auto one_by_one, const ReduceBesideFn fn, const T* second, const char* name) {
          std::vector<A> expected(rows * runs, A(3)), found(rows * runs, A(3)), in_parts(rows * runs, A(3));
          one_by_one(expected.data());
          RowsBeside shape{.runs = runs, .rows = rows, .columns = n};
          shape.step_a = static_cast<std::ptrdiff_t>(step), shape.step_b = static_cast<std::ptrdiff_t>(rows);
          fn(found.data(), nullptr, a_beside.data(), second, shape);
          std::vector<T> lanes(kSumLanes * rows);
          for (std::size_t c = 0; runs == 1 && c < n; c += 48) {
            shape.columns = std::min<std::size_t>(48, n - c);
            shape.begins = c == 0, shape.ends = c + 48 >= n;
            fn(in_parts.data(), lanes.data(), a_beside.data() + c * step, second ? second + c * rows : nullptr, shape);
          }
          if (runs > 1) in_parts = found;
          for (std::size_t r = 0; r < rows * runs; ++r) {
            for (const A& x : {found[r], in_parts[r]}) {
              const bool both_nan = x != x && expected[r] != expected[r];
              ASSERT_TRUE(both_nan || std::memcmp(&x, &expected[r], sizeof(A)) == 0)
                  << k.target << ' ' << name << " n " << n << " rows " << rows << " runs " << runs << " row " << r;
            }
          }
        };
        for (const Op op : {Op::sum, Op::prod, Op::max, Op::min})
          expect_same([&](A* acc) { k.reduce(op, reg, DType::f32)(acc, a.data(), rows * runs, n); },
                      k.reduce_beside(op, reg, DType::f32), nullptr, info(op).name.data());
        if (real)
          expect_same([&](A* acc) { k.dot(reg)(acc, a.data(), b.data(), rows * runs, n); },
                      k.reduce_beside(Op::sum, reg, DType::f32), b_beside.data(), "dot");
      }
    }
  }
}

TEST(Reduce, RowsSideBySideHaveTheSameBits) {
  on_every_target([](const TileKernels& k) {
    check_beside<float, double>(k, RegType::f32, true);
    check_beside<double, double>(k, RegType::f64, true);
    check_beside<std::int32_t, std::int64_t>(k, RegType::i32, false);
    check_beside<std::int64_t, std::int64_t>(k, RegType::i64, false);
  });
}

// Sums in f64 that no float reaches are infinite as results of rows, whichever way the target narrows them.
TEST(Reduce, SumsOfRowsSideBySideOverflowToInfinity) {
  on_every_target([](const TileKernels& k) {
    constexpr std::size_t kRows = 21;
    for (const std::size_t n : {4, 16, 40}) {
      std::vector<float> a(n * kRows);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 3 == 0 ? 3e38f : i % 3 == 1 ? -3e38f : 1.0f;
      std::vector<float> found(kRows);
      k.reduce_beside(Op::sum, RegType::f32, DType::f32)(
          nullptr, nullptr, a.data(), nullptr,
          {.rows = kRows, .columns = n, .step_a = static_cast<std::ptrdiff_t>(kRows), .results = found.data()});
      for (std::size_t r = 0; r < kRows; ++r) {
        const float expected = r % 3 == 0 ? INFINITY : r % 3 == 1 ? -INFINITY : static_cast<float>(n);
        ASSERT_EQ(found[r], expected) << k.target << " n " << n << " row " << r;
      }
    }
  });
}

TEST(Reduce, RowsOfHalvesSideBySideAreThoseOfTheirNumbers) {
  on_every_target([](const TileKernels& k) {
    for (const std::size_t rows : {1, 3, 7, 16, 17, 45, 100}) {
      const std::size_t n = 21;
      for (const DType halves : {DType::bf16, DType::f16}) {
        std::vector<std::uint16_t> a(n * rows);
        std::vector<float> wide(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          const float x = std::sin(static_cast<float>(i)) * (i % 61 == 60 ? INFINITY : 3.0f);
          a[i] = halves == DType::bf16 ? bfloat16_from(x).bits : half_from(x).bits;
          wide[i] = halves == DType::bf16 ? to_float(BFloat16{a[i]}) : to_float(Half{a[i]});
        }
        const RowsBeside shape{.rows = rows, .columns = n, .step_a = static_cast<std::ptrdiff_t>(rows)};
        for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
          std::vector<double> expected(rows, 1.0), found(rows, 1.0);
          k.reduce_beside(op, RegType::f32, DType::f32)(expected.data(), nullptr, wide.data(), nullptr, shape);
          k.reduce_beside(op, RegType::f32, halves)(found.data(), nullptr, a.data(), nullptr, shape);
          for (std::size_t r = 0; r < rows; ++r)
            ASSERT_TRUE(found[r] == expected[r] || (std::isnan(found[r]) && std::isnan(expected[r])))
                << k.target << ' ' << info(op).name << ' ' << name(halves) << " rows " << rows << " row " << r;
        }
      }
    }
  });
}

TEST(Reduce, IsTheTreeOfSixteenLanesToTheBit) {
  on_every_target([](const TileKernels& k) {
    for (Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
      check_tree<float>(k, op, RegType::f32);
      check_tree<double>(k, op, RegType::f64);
    }
  });
}

// IEEE 754's maximum and minimum: NaN wherever it is and whatever its sign, -0 below +0; alone, side by side, by
// column.
TEST(Reduce, ExtremesKnowNaNAndTheSignOfZero) {
  on_every_target([](const TileKernels& k) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (const std::size_t n : {1, 2, 5, 16, 17, 40, 100, 131}) {
      for (const std::size_t rows : {1, 3, 4, 9, 33}) {
        for (std::size_t at = 0; at < n; at += 1 + n / 7) {
          // The deciding number, the other numbers, the maximum, the minimum.
          const float cases[][4] = {{0.0f, -0.0f, 0.0f, n > 1 ? -0.0f : 0.0f},
                                    {-0.0f, 0.0f, n > 1 ? 0.0f : -0.0f, -0.0f},
                                    {nan, 3, nan, nan},
                                    {-nan, -3, nan, nan},
                                    {nan, inf, nan, nan},
                                    {-nan, -inf, nan, nan},
                                    {inf, 1, inf, n > 1 ? 1 : inf},
                                    {-inf, -1, n > 1 ? -1 : -inf, -inf}};
          for (const auto& [x, others, largest, least] : cases) {
            std::vector<float> a(n * rows, others), columns(n * rows, others);
            for (std::size_t r = 0; r < rows; ++r) a[r * n + at] = columns[at * rows + r] = x;
            for (const Op op : {Op::max, Op::min}) {
              const double identity = op == Op::max ? -HUGE_VAL : HUGE_VAL;
              std::vector<double> found(rows, identity), beside(rows, identity), down(rows, identity);
              std::vector<float> open(rows);
              k.reduce(op, RegType::f32, DType::f32)(found.data(), a.data(), rows, n);
              const RowsBeside shape{.rows = rows, .columns = n, .step_a = static_cast<std::ptrdiff_t>(rows)};
              k.reduce_beside(op, RegType::f32, DType::f32)(beside.data(), nullptr, columns.data(), nullptr, shape);
              k.reduce_columns(op, RegType::f32, DType::f32)(
                  down.data(), open.data(), columns.data(),
                  {.rows = n, .columns = rows, .stride = rows, .closes = true});
              for (std::size_t r = 0; r < rows; ++r) {
                const float expected = op == Op::max ? largest : least;
                for (const double y : {found[r], beside[r], down[r]})
                  ASSERT_TRUE(std::isnan(expected) ? std::isnan(y)
                                                   : y == expected && std::signbit(y) == std::signbit(expected))
                      << k.target << ' ' << info(op).name << " n " << n << " rows " << rows << " at " << at << ": " << y
                      << " instead of " << expected;
              }
            }
          }
        }
      }
    }
  });
}

// Halves are read in place, and columns are added in runs of rows, in any number of calls.
template <class T>
void check_columns(const TileKernels& k, Op op, RegType reg, DType dtype) {
  std::mt19937 rng(6);
  for (const std::size_t columns : {1, 2, 3, 7, 8, 15, 16, 17, 33, 65, 100, 385}) {
    for (const std::size_t rows : {1, 5, 31, 32, 33, 64, 129, 200, 300}) {
      std::vector<T> a(rows * columns);
      std::vector<std::uint16_t> halves(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double x = (op == Op::prod ? 1 : 0) + static_cast<double>(rng() % 2001) / 9999.0 - 0.1;
        a[i] = static_cast<T>(i % 1301 == 1300 ? NAN : x);
        if (!is_half(dtype)) continue;
        halves[i] = dtype == DType::bf16 ? bfloat16_from(static_cast<float>(a[i])).bits
                                         : half_from(static_cast<float>(a[i])).bits;
        a[i] = static_cast<T>(dtype == DType::bf16 ? to_float(BFloat16{halves[i]}) : to_float(Half{halves[i]}));
      }
      const auto combine = [op](auto x, auto y) -> decltype(x) {
        if (op == Op::sum) return x + y;
        if (op == Op::prod) return x * y;
        if (x != x || y != y) return x + y;
        return op == Op::max ? std::max(x, y) : std::min(x, y);
      };
      const double identity = op == Op::sum ? 0 : op == Op::prod ? 1 : op == Op::max ? -HUGE_VAL : HUGE_VAL;
      std::vector<double> expected(columns, identity), at_once(columns, identity), in_parts(columns, identity);
      std::vector<T> rest(columns, static_cast<T>(identity)), open(columns), open_parts(columns);
      for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t r = 0; r < rows; ++r) {
          rest[c] = combine(rest[c], a[r * columns + c]);
          if (r % kRowsPerRun + 1 < kRowsPerRun) continue;
          expected[c] = combine(expected[c], static_cast<double>(rest[c]));
          rest[c] = static_cast<T>(identity);
        }
      }
      const ReduceColumnsFn fn = k.reduce_columns(op, reg, dtype);
      const auto* from = is_half(dtype) ? reinterpret_cast<const std::byte*>(halves.data())
                                        : reinterpret_cast<const std::byte*>(a.data());
      const std::size_t bytes = columns * (is_half(dtype) ? 2 : sizeof(T));
      fn(at_once.data(), open.data(), from, {.rows = rows, .columns = columns, .stride = columns});
      for (std::size_t r = 0, n = 0; r < rows; r += n) {
        n = std::min<std::size_t>(1 + rng() % 70, rows - r);
        fn(in_parts.data(), open_parts.data(), from + r * bytes,
           {.rows = n, .columns = columns, .stride = columns, .before = r % kRowsPerRun});
      }
      // Some of the columns, every run closed.
      const std::size_t skipped = columns / 3, kept = columns - skipped;
      std::vector<double> some(kept, identity);
      fn(some.data(), nullptr, from + skipped * (bytes / columns),
         {.rows = rows, .columns = kept, .stride = columns, .closes = true});
      const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
      for (std::size_t c = 0; c < columns; ++c) {
        ASSERT_TRUE(same(at_once[c], expected[c]) && same(in_parts[c], expected[c]))
            << k.target << ' ' << info(op).name << " rows " << rows << " columns " << columns << " column " << c;
        const bool over = rows % kRowsPerRun == 0;
        ASSERT_TRUE(over || (same(open[c], rest[c]) && same(open_parts[c], rest[c])));
        if (c < skipped) continue;
        const double closed = over ? expected[c] : combine(expected[c], static_cast<double>(rest[c]));
        ASSERT_TRUE(same(some[c - skipped], closed)) << k.target << ' ' << info(op).name << " rows " << rows;
      }
    }
  }
}

TEST(Reduce, ColumnsAreAddedInRunsOfRowsToTheBit) {
  on_every_target([](const TileKernels& k) {
    for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
      check_columns<float>(k, op, RegType::f32, DType::f32);
      check_columns<float>(k, op, RegType::f32, DType::bf16);
      check_columns<float>(k, op, RegType::f32, DType::f16);
      check_columns<double>(k, op, RegType::f64, DType::f64);
    }
  });
}

TEST(Reduce, RowsOfHalvesAreThoseOfTheirNumbers) {
  on_every_target([](const TileKernels& k) {
    for (const std::size_t n : {1, 3, 4, 15, 16, 17, 50, 1024, 1100}) {
      const std::size_t rows = 9;
      for (const DType halves : {DType::bf16, DType::f16}) {
        std::vector<std::uint16_t> a(n * rows);
        std::vector<float> wide(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          const float x = std::sin(static_cast<float>(i)) * (i % 997 == 996 ? INFINITY : 1.5f);
          a[i] = halves == DType::bf16 ? bfloat16_from(x).bits : half_from(x).bits;
          wide[i] = halves == DType::bf16 ? to_float(BFloat16{a[i]}) : to_float(Half{a[i]});
        }
        for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
          std::vector<double> expected(rows, 1.0), found(rows, 1.0);
          k.reduce(op, RegType::f32, DType::f32)(expected.data(), wide.data(), rows, n);
          k.reduce(op, RegType::f32, halves)(found.data(), a.data(), rows, n);
          for (std::size_t r = 0; r < rows; ++r)
            ASSERT_TRUE(found[r] == expected[r] || (std::isnan(found[r]) && std::isnan(expected[r])))
                << k.target << ' ' << info(op).name << ' ' << name(halves) << " n " << n << " row " << r;
        }
      }
    }
  });
}

TEST(Reduce, IntegersAreExactInI64) {
  on_every_target([](const TileKernels& k) {
    std::vector<std::int32_t> a(1000, INT32_MAX);
    a[500] = INT32_MIN;
    std::int64_t acc = 5;
    k.reduce(Op::sum, RegType::i32, DType::f32)(&acc, a.data(), 1, a.size());
    EXPECT_EQ(acc, 5 + 999 * std::int64_t{INT32_MAX} + INT32_MIN);
    acc = 0;
    k.reduce(Op::min, RegType::i32, DType::f32)(&acc, a.data(), 1, a.size());
    EXPECT_EQ(acc, INT32_MIN);
    acc = -7;
    k.reduce(Op::max, RegType::i32, DType::f32)(&acc, a.data(), 1, a.size());
    EXPECT_EQ(acc, INT32_MAX);
    const std::int64_t b[] = {3, -5, 7, 1LL << 40};
    acc = 2;
    k.reduce(Op::prod, RegType::i64, DType::f32)(&acc, b, 1, 4);
    EXPECT_EQ(acc, -210 * (1LL << 40));
    std::int64_t rows[2] = {0, 0};
    k.reduce(Op::sum, RegType::i64, DType::f32)(rows, b, 2, 2);
    EXPECT_EQ(rows[0], -2);
    EXPECT_EQ(rows[1], 7 + (1LL << 40));
  });
}

TEST(Generate, UniformIsPhiloxWordByWord) {
  on_every_target([](const TileKernels& k) {
    for (std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{4096},
                               (std::int64_t{1} << 34) - 5})
      for (std::size_t n : {0, 1, 3, 4, 5, 16, 31, 64, 67, 1025}) {
        std::vector<float> f(n + 1, -1);
        std::vector<double> d(n + 1, -1);
        k.uniform(RegType::f32, f.data(), 0x123456789abcdef0, 0xfedcba9876543210, first, n);
        k.uniform(RegType::f64, d.data(), 0x123456789abcdef0, 0xfedcba9876543210, first, n);
        for (std::size_t i = 0; i < n; ++i) {
          std::uint32_t words[4];
          const std::uint64_t e = static_cast<std::uint64_t>(first) + i;
          philox_block(0x123456789abcdef0, 0xfedcba9876543210, e / 4, words);
          ASSERT_EQ(f[i], static_cast<float>(words[e % 4] >> 8) * 0x1p-24f) << first << " " << i;
          ASSERT_EQ(d[i], words[e % 4] * 0x1p-32);
        }
        ASSERT_EQ(f[n], -1);
        ASSERT_EQ(d[n], -1);
      }
  });
}

TEST(Generate, FillsAndCounts) {
  on_every_target([](const TileKernels& k) {
    std::vector<double> d(40, -1);
    const double value = 2.5;
    k.fill(RegType::f64, d.data(), &value, 39);
    EXPECT_EQ(d[38], 2.5);
    EXPECT_EQ(d[39], -1);
    std::int64_t i64[5];
    k.iota(RegType::i64, i64, 10, -3, 2, 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(i64[i], 10 - 3 * (2 + i));
    float f[5];
    k.iota(RegType::f32, f, 10, -3, 2, 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(f[i], static_cast<float>(10 - 3 * (2 + i)));
  });
}

TEST(Targets, CanBeForced) {
  const TargetList targets = tile_kernel_targets();
  ASSERT_GE(targets.count, 1u);
  EXPECT_EQ(&tile_kernels(), targets.begin_[0]);
  force_tile_kernels(targets.begin_[targets.count - 1]);
  EXPECT_EQ(&tile_kernels(), targets.begin_[targets.count - 1]);
  force_tile_kernels(nullptr);
  EXPECT_EQ(&tile_kernels(), targets.begin_[0]);
}

}  // namespace
}  // namespace ebb::cpu
