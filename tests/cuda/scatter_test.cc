// SPDX-License-Identifier: MIT
// scatter, scatter_add and index_add on cuda:0 against the CPU: numbers of places from one to more than shared memory
// holds, lines of one piece and of several, any axis; the same bits in every run and in every batch.
#include <limits>
#include <utility>

#include "cuda/backend.h"
#include "cuda/library_on_gpu.h"
#include "cuda/runtime/gpu.h"
#include "expect_error.h"
#include "ops/index_nodes.h"

namespace ebb::testing {
namespace {

using ScatterOnGpu = LibraryOnGpu;

struct Lines {
  std::int64_t places, length;
};
// One of each method, at its limits: a thread's own sums, a block's, sorted ones, exact ones.
const Lines kLines[] = {{1, 1},        {1, 700},      {3, 16385},   {10, 2859},    {54, 300},
                        {55, 300},     {100, 5000},   {256, 77},    {257, 4000},   {1000, 1},
                        {1000, 17000}, {7000, 20000}, {40000, 900}, {40000, 2000}, {40000, 10001}};

TEST_P(ScatterOnGpu, SumsOfLines) {
  for (const auto& [places, length] : kLines) {
    const Tensor src = real({2, length}), index = randint(0, places, {2, length}).eval();
    compare(fmt::format("scatter_add of {} for {} places", length, places), {src}, [&](const std::vector<Tensor>& in) {
      return scatter_add(zeros({2, places}, GetParam()), 1, index.to(in[0].device()), in[0]);
    });
  }
}

// The axis is the first, or has lines before and after it.
TEST_P(ScatterOnGpu, SumsAlongOtherAxes) {
  for (const std::int64_t inner : {1, 3, 40, 300}) {
    for (const std::int64_t places : {3, 60}) {
      const Tensor src = real({2, 130, inner}), index = randint(0, places, {2, 130, inner}).eval();
      compare(fmt::format("scatter_add for {} places, {} behind", places, inner), {src},
              [&](const std::vector<Tensor>& in) {
                return scatter_add(zeros({2, places, inner}, GetParam()), 1, index.to(in[0].device()), in[0]);
              });
    }
  }
  // Views that are not consecutive lines.
  const Tensor src = real({4, 90, 6, 5}), index = randint(0, 7, {4, 6, 90, 5}).eval();
  compare("scatter_add of views", {src}, [&](const std::vector<Tensor>& in) {
    const Tensor from = transpose(in[0], 1, 2), at = index.to(in[0].device());
    return scatter_add(zeros({2, 6, 7, 3}, GetParam()), 2, at.slice(0, 0, 4, 2).slice(3, 0, 3),
                       from.slice(0, 1, 4, 2).slice(3, 1, 4));
  });
}

TEST_P(ScatterOnGpu, SumsOfSlices) {
  for (const std::int64_t inner : {1, 5, 64, 300}) {
    for (const std::int64_t places : {1, 3, 24, 25, 128, 700}) {
      const Tensor x = real({places, inner}), src = real({260, inner}), index = randint(0, places, {260}).eval();
      compare(fmt::format("index_add to {} of {}", places, inner), {x, src},
              [&](const std::vector<Tensor>& in) { return index_add(in[0], 0, index.to(in[0].device()), in[1]); });
    }
  }
  const Tensor src = real({2, 700, 3}), index = randint(0, 4, {700}).eval();
  compare("index_add between other axes", {src}, [&](const std::vector<Tensor>& in) {
    return index_add(zeros({2, 4, 3}, GetParam()), 1, index.to(in[0].device()), in[0]);
  });
  const Tensor line = real({20000}), far = randint(0, 5000, {20000}).eval();
  compare("index_add of numbers", {line}, [&](const std::vector<Tensor>& in) {
    return index_add(zeros({5000}, GetParam()), 0, far.to(in[0].device()), in[0]);
  });
}

// Half of the tokens go to one row, which is divided; others have many, few or none.
TEST_P(ScatterOnGpu, SumsOfAFavouriteRow) {
  for (const std::int64_t tokens : {511, 1100, 3000}) {
    const Tensor src = real({tokens, 5}), any = randint(0, 700, {tokens}), often = rand({tokens});
    const Tensor index = where(often < 0.5, 3, where(often < 0.7, 699, any)).eval();
    compare(fmt::format("index_add of {}", tokens), {src}, [&](const std::vector<Tensor>& in) {
      return index_add(zeros({700, 5}, GetParam()), 0, index.to(in[0].device()), in[0]);
    });
    const auto sums = [&] {
      return index_add(zeros({700, 5}, GetParam()), 0, index.to(kGpu), src.to(kGpu)).to_vector<double>();
    };
    const std::vector<double> first = sums();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(sums(), first) << tokens;
  }
}

// Small integers, whose sums are exact in every dtype, with NaN and infinities among them: as one element after the
// other is added.
TEST_P(ScatterOnGpu, SumsOfShortLines) {
  struct Case {
    std::int64_t lines, length, places, inner;
  };
  std::vector<Case> cases{{301, 1, 2, 1},     {301, 5, 5, 1},   {67, 8, 3, 7},   {3, 9, 400, 1},    {40, 32, 129, 3},
                          {40, 33, 31, 1},    {35, 64, 3, 1},   {35, 65, 40, 2}, {1100, 65, 40, 1}, {9, 171, 513, 1},
                          {131, 171, 513, 1}, {5, 512, 100, 1}, {5, 512, 30, 1}, {2, 5, 70001, 1},  {1, 1, 1, 1}};
  for (int k = 0; k < 4; ++k) {
    const auto drawn = randint(1, 90, {3}).to_vector<std::int64_t>();
    cases.push_back({drawn[0], drawn[1], drawn[2], k + 1});
  }
  for (const auto& [lines, length, places, inner] : cases) {
    const Shape shape{lines, length, inner}, to{lines, places, inner};
    Tensor x = cast(randint(-2, 3, shape), GetParam());
    if (lines > 4) x = where(rand(shape) < 0.01, std::nan(""), where(rand(shape) < 0.01, HUGE_VAL, x));
    x = cast(x, GetParam()).eval();
    const Tensor at = randint(0, places, shape).eval(), of_slices = randint(0, places, {length}).eval();
    const std::string what = fmt::format("{} lines of {} for {} places, {} behind", lines, length, places, inner);
    const std::vector<double> numbers = x.to_vector<double>();
    const auto expect_sums = [&](const Tensor& index, const Tensor& found, const std::string& how) {
      const std::vector<std::int64_t> where_to = broadcast_to(index, shape).to_vector<std::int64_t>();
      std::vector<double> want(static_cast<std::size_t>(to.numel()), 0.0);
      for (std::int64_t e = 0; e < shape.numel(); ++e) {
        const std::int64_t line = e / (length * inner), c = e % inner, place = where_to[static_cast<std::size_t>(e)];
        want[static_cast<std::size_t>((line * places + place) * inner + c)] += numbers[static_cast<std::size_t>(e)];
      }
      const std::vector<double> got = found.to_vector<double>();
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
            << what << how << ", element " << i << ": " << got[i] << " instead of " << want[i];
      }
    };
    const Tensor there = x.to(kGpu).eval();
    const Tensor interleaved = transpose(transpose(there, 0, 2).eval(), 0, 2);
    for (const DType dtype : {DType::i64, DType::i32}) {
      const Tensor index = cast(at, dtype).to(kGpu).eval(), slices = cast(of_slices, dtype).to(kGpu).eval();
      expect_sums(at, scatter_zero_add(there, 1, cast(index, DType::i64), to), ", scattered");
      expect_sums(reshape(of_slices, {1, length, 1}), index_add(zeros(to, GetParam()), 1, slices, interleaved),
                  ", slices of a view");
    }
    expect_sums(at, scatter_zero_add(interleaved, 1, transpose(transpose(at.to(kGpu), 0, 1).eval(), 0, 1), to),
                ", views");
    expect_sums(reshape(of_slices, {1, length, 1}), index_zero_add(there, 1, of_slices.to(kGpu), to), ", slices");
  }
}

// Rows of a few bytes with none, one, some, many and very many tokens.
TEST_P(ScatterOnGpu, SumsOfTokensForShortRows) {
  for (const std::int64_t inner : {1, 2, 3}) {
    for (const std::int64_t tokens : {600, 2300}) {
      const std::int64_t rows = 40000;
      const Tensor src = real({tokens, inner}), any = randint(0, rows, {tokens}), often = rand({tokens});
      const Tensor few = remainder(any, 40) * 11, index = where(often < 0.4, 0, where(often < 0.7, few, any)).eval();
      compare(fmt::format("index_add of {} rows of {}", tokens, inner), {src}, [&](const std::vector<Tensor>& in) {
        return index_add(zeros({rows, inner}, GetParam()), 0, index.to(in[0].device()), in[0]);
      });
    }
  }
}

// With other lines around it a line may be added by other threads, but in the same order.
TEST_P(ScatterOnGpu, ShortLinesHaveTheSameBitsInEveryBatch) {
  for (const auto& [places, length] : {Lines{5, 7}, Lines{400, 30}, Lines{40, 70}, Lines{300, 171}, Lines{50, 512}}) {
    const std::int64_t lines = 1500;
    const Tensor src = real({lines, length}).to(kGpu).eval(),
                 index = randint(0, places, {lines, length}).to(kGpu).eval(),
                 slices = randint(0, places, {length}).to(kGpu).eval();
    const auto sums = [&](const Tensor& x, const Tensor& at) {
      return scatter_zero_add(x, 1, at, {x.size(0), places}).to_vector<double>();
    };
    const auto of_slices = [&](const Tensor& x) {
      return index_zero_add(x, 1, slices, {x.size(0), places}).to_vector<double>();
    };
    const Tensor few = src.slice(0, 3, 5).eval();
    const std::vector<double> all = sums(src, index), alone = sums(few, index.slice(0, 3, 5).eval()),
                              all_slices = of_slices(src), slices_alone = of_slices(few);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + 3 * places)) << places;
    EXPECT_TRUE(std::equal(slices_alone.begin(), slices_alone.end(), all_slices.begin() + 3 * places)) << places;
  }
}

// Rows of bytes that 16 is no multiple of, of slices and of one, whose last words are not full.
TEST_P(ScatterOnGpu, SelectsShortRows) {
  for (const std::int64_t inner : {1, 2, 3, 7, 17, 34, 65}) {
    for (const std::int64_t outer : {1, 3}) {
      const Tensor x = real({outer, 11, inner}), index = randint(0, 11, {29}).eval();
      const std::vector<double> numbers = x.to_vector<double>();
      const std::vector<std::int64_t> at = index.to_vector<std::int64_t>();
      std::vector<double> want;
      for (std::int64_t o = 0; o < outer; ++o) {
        for (const std::int64_t row : at) {
          for (std::int64_t c = 0; c < inner; ++c)
            want.push_back(numbers[static_cast<std::size_t>((o * 11 + row) * inner + c)]);
        }
      }
      const std::string what = fmt::format("{} slices of rows of {}", outer, inner);
      EXPECT_EQ(index_select(x.to(kGpu), 1, index.to(kGpu)).to_vector<double>(), want) << what;
      const Tensor wide = cat({x, x}, 1).to(kGpu).eval();
      EXPECT_EQ(index_select(wide.slice(1, 0, 11), 1, index.to(kGpu)).to_vector<double>(), want) << what << ", of more";
    }
  }
  const Tensor wrong = index_select(real({5, 3}).to(kGpu), 0, tensor({1, 5}).to(kGpu));
  EXPECT_THROW_MESSAGE(wrong.to_vector<double>(), "index_select: index[1] = 5 is outside [0, 5)");
}

// Few elements and many, several per place, above x or below it.
TEST_P(ScatterOnGpu, ExtremaOfPlaces) {
  for (const auto& [length, places, inner] : {std::tuple{5, 40, 1}, {5, 3, 7}, {16, 10, 1}, {17, 10, 1}, {1, 9, 3}}) {
    const Tensor x = real({30, places, inner}), src = real({30, length, inner}),
                 index = randint(0, places, {30, length, inner}).eval();
    for (const char* how : {"amax", "amin"}) {
      for (const bool self : {true, false}) {
        compare(fmt::format("{} of {} for {} places, {} behind", how, length, places, inner), {x, src},
                [&](const std::vector<Tensor>& in) {
                  return scatter_reduce(in[0], 1, index.to(in[0].device()), in[1], how, self);
                });
      }
    }
  }
}

TEST_P(ScatterOnGpu, PutsTheLast) {
  for (const auto& [places, length] : kLines) {
    const Tensor x = real({3, places}), src = real({3, length}), index = randint(0, places, {3, length}).eval();
    for (const bool views : {false, true}) {
      const auto view = [&](const Tensor& t) { return views ? flip(t, 1) : t; };
      const auto put = [&](Device d) { return scatter(view(x.to(d)), 1, view(index.to(d)), view(src.to(d))); };
      EXPECT_EQ(put(kGpu).to_vector<double>(), put({}).to_vector<double>()) << places << ", " << length;
    }
  }
}

// Neighbours along the axis and behind it, fewer places than elements and more, and lines that no block's threads
// divide.
TEST_P(ScatterOnGpu, PutsTheLastOfShortLines) {
  struct Case {
    std::int64_t outer, length, places, inner;
  };
  for (const auto& [outer, length, places, inner] :
       {Case{17001, 5, 5, 1}, {16500, 3, 12, 1}, {20000, 8, 1, 1}, {130, 2, 3, 141}, {1, 7, 5, 16999}}) {
    const Tensor x = real({outer, places, inner}), src = real({outer, length, inner}),
                 index = randint(0, places, {outer, length, inner}).eval();
    const std::vector<double> numbers = src.to_vector<double>();
    const std::vector<std::int64_t> at = index.to_vector<std::int64_t>();
    std::vector<double> want = x.to_vector<double>();
    for (std::size_t e = 0; e < numbers.size(); ++e) {
      const auto n = static_cast<std::int64_t>(e), line = n / (length * inner), c = n % inner;
      want[static_cast<std::size_t>((line * places + at[e]) * inner + c)] = numbers[e];
    }
    const std::string what = fmt::format("{} lines of {} for {} places, {} behind", outer, length, places, inner);
    EXPECT_EQ(scatter(x.to(kGpu), 1, index.to(kGpu), src.to(kGpu)).to_vector<double>(), want) << what;
    const auto turned = [](const Tensor& t) { return transpose(transpose(t, 0, 2).to(kGpu).eval(), 0, 2); };
    EXPECT_EQ(scatter(turned(x), 1, turned(index), turned(src)).to_vector<double>(), want) << what;
  }
}

// Outputs that do not fit on chip: values with positions, positions only, few of many places.
TEST_P(ScatterOnGpu, PutsTheLastOfManyPlaces) {
  for (const auto& [places, length] : {Lines{30000, 60000}, Lines{30000, 16000}, Lines{30000, 50}}) {
    const Tensor x = real({places}), src = real({length}), index = randint(0, places, {length}).eval();
    const auto put = [&](Device d) { return scatter(flip(x.to(d), 0), 0, index.to(d), src.to(d)); };
    EXPECT_EQ(put(kGpu).to_vector<double>(), put({}).to_vector<double>()) << places << ", " << length;
    const Tensor columns = real({places / 100, 100}), at = randint(0, places / 100, {length / 50, 100}).eval(),
                 from = real({length / 50, 100});
    const auto down = [&](Device d) { return scatter(columns.to(d), 0, at.to(d), from.to(d)); };
    EXPECT_EQ(down(kGpu).to_vector<double>(), down({}).to_vector<double>()) << places << ", " << length << ", down";
  }
}

// The device's threads run in a different order each time.
TEST_P(ScatterOnGpu, EveryRunHasTheSameBits) {
  for (const auto& [places, length] :
       {Lines{3, 40000}, Lines{10, 3000}, Lines{1000, 17000}, Lines{40000, 2000}, Lines{30000, 7501}}) {
    const Tensor src = real({3, length}).to(kGpu), index = randint(0, places, {3, length}).eval().to(kGpu);
    const auto sums = [&](const Tensor& from, const Tensor& at) {
      return scatter_add(zeros({from.size(0), places}, GetParam()), 1, at, from).to_vector<double>();
    };
    const std::vector<double> first = sums(src, index), alone = sums(src.slice(0, 2, 3), index.slice(0, 2, 3));
    for (int run = 0; run < 3; ++run) EXPECT_EQ(sums(src, index), first) << places;
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), first.begin() + 2 * places)) << places << ", alone";
    const auto slices = [&] {
      return index_add(zeros({places, 3}, GetParam()), 0, reshape(index.slice(0, 1, 2), {length}), transpose(src, 0, 1))
          .to_vector<double>();
    };
    const std::vector<double> of_slices = slices();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(slices(), of_slices) << places;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ScatterOnGpu, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

class IntegersOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(5);
  }
};

// Tables in shared memory, with carries between words, and sums in memory.
TEST_F(IntegersOnGpu, SumsAreExact) {
  for (const DType dtype : {DType::i64, DType::i32}) {
    const std::int64_t most = dtype == DType::i64 ? std::int64_t{1} << 51 : 1 << 30;
    for (const std::int64_t places : {1, 3, 1000, 12289, 30000}) {
      const Tensor src = randint(-most, most, {5000, 2}, dtype).eval(), index = randint(0, places, {5000}).eval();
      const auto rows = [&](Device d) { return index_add(zeros({places, 2}, dtype), 0, index.to(d), src.to(d)); };
      EXPECT_EQ(rows(kGpu).to_vector<std::int64_t>(), rows({}).to_vector<std::int64_t>()) << places;
      const auto lines = [&](Device d) {
        return scatter_add(ones({2, places}, dtype), 1, broadcast_to(index.to(d), {2, 5000}),
                           transpose(src.to(d), 0, 1));
      };
      EXPECT_EQ(lines(kGpu).to_vector<std::int64_t>(), lines({}).to_vector<std::int64_t>()) << places;
    }
  }
}

// Places that do not fit on chip: sums in fixed point.
class ExactSumsOnGpu : public IntegersOnGpu {
 protected:
  static constexpr std::int64_t kPlaces = 30000;
  static std::vector<double> sums(const std::vector<float>& x, const std::vector<std::int64_t>& at) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    const Tensor src = tensor_from(std::vector<double>(x.begin(), x.end()), shape, DType::f32),
                 index = tensor_from(at, shape, DType::i64);
    return scatter_add(zeros({kPlaces}), 0, index.to(kGpu), src.to(kGpu)).to_vector<double>();
  }
};

// x + y - x is y for numbers of any size: no intermediate rounding. From one digit to all of them.
TEST_F(ExactSumsOnGpu, NothingIsRoundedBeforeTheEnd) {
  for (const int spread : {0, 3, 12, 40, 126}) {
    std::vector<float> x;
    std::vector<double> want(kPlaces, 0.0);
    std::vector<std::int64_t> at;
    const auto exponents = randint(-spread, spread + 1, {3, kPlaces / 2}).to_vector<std::int64_t>();
    const auto parts = randint(-(1 << 24) + 1, 1 << 24, {3, kPlaces / 2}).to_vector<std::int64_t>();
    const auto number = [&](std::int64_t k, std::int64_t i) {
      const auto j = static_cast<std::size_t>(k * (kPlaces / 2) + i);
      return std::ldexp(static_cast<float>(parts[j]), static_cast<int>(exponents[j]) - 23);
    };
    for (std::int64_t i = 0; i < kPlaces / 2; ++i) {
      const float big = number(0, i), small = number(1, i);
      want[static_cast<std::size_t>(2 * i)] = small;
      for (const float part : {big, small, -big}) {
        x.push_back(part);
        at.push_back(2 * i);
      }
    }
    EXPECT_EQ(sums(x, at), want) << spread;
  }
}

// One rounding, to the nearest, ties to even; overflow to infinity; subnormal numbers.
TEST_F(ExactSumsOnGpu, SumsAreRoundedOnce) {
  std::vector<float> x(kPlaces / 2, 0.0f);
  std::vector<std::int64_t> at(x.size(), 7);
  const float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max(),
              least = std::numeric_limits<float>::denorm_min(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::vector<float>, float>> cases{
      {{16777216, 1}, 16777216},
      {{16777216, 1, least}, 16777218},
      {{-16777216, -1, -least}, -16777218},
      {{16777218, 1}, 16777220},
      {{1, -0x1p-24f}, 0x1.fffffep-1f},
      {{1, -0x1p-25f}, 1},
      {{1, -0x1p-25f, -least}, 0x1.fffffep-1f},
      {{most, most}, inf},
      {{most, most, -most}, most},
      {{-most, -most}, -inf},
      {{least, least, least}, 3 * least},
      {{0x1p-126f, -least}, 0x1p-126f - least},
      {{-0.0f, -0.0f}, 0},
      {{1, -1}, 0},
  };
  for (const bool special : {false, true}) {
    std::size_t n = 0;
    std::vector<double> want(kPlaces, 0.0);
    std::int64_t place = 11;
    const auto put = [&](const std::vector<float>& parts, float sum) {
      for (const float part : parts) x[n] = part, at[n++] = place;
      want[static_cast<std::size_t>(place++)] = sum;
    };
    for (const auto& [parts, sum] : cases) put(parts, sum);
    if (special) put({inf, 3, -most}, inf), put({-inf, 3}, -inf), put({inf, -inf}, nan), put({1, nan, inf}, nan);
    const std::vector<double> got = sums(x, at);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
          << "place " << i << ": " << got[i] << " instead of " << want[i];
    }
  }
}

// Sums below 2^-126 are multiples of 2^-149, like all floats: a subnormal sum is exact, and others are rounded once.
TEST_F(ExactSumsOnGpu, SubnormalSums) {
  const std::int64_t n = 3 * kPlaces;
  const float least = std::numeric_limits<float>::denorm_min();
  for (const std::int64_t most : {2, 1 << 12, 1 << 23, 1 << 24}) {
    std::vector<float> x;
    std::vector<double> want(kPlaces, 0.0);
    const auto parts = randint(-most + 1, most, {n}).to_vector<std::int64_t>(),
               at = randint(0, kPlaces, {n}).to_vector<std::int64_t>();
    std::vector<std::int64_t> sum(kPlaces, 0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      x.push_back(static_cast<float>(parts[i]) * least);
      sum[static_cast<std::size_t>(at[i])] += parts[i];
    }
    for (std::size_t p = 0; p < sum.size(); ++p)
      want[p] = static_cast<double>(static_cast<float>(sum[p])) * static_cast<double>(least);
    EXPECT_EQ(sums(x, at), want) << most;
  }
}

// Sums of halves are not rounded to f32 first: digits far below a tie decide it.
TEST_F(ExactSumsOnGpu, SumsOfHalvesAreRoundedOnce) {
  const std::vector<std::tuple<DType, std::vector<double>, double>> cases{
      {DType::bf16, {1, 0x1p-8, 0x1p-40}, 1 + 0x1p-7}, {DType::bf16, {1, 0x1p-8}, 1},
      {DType::bf16, {1, 0x1p-8, -0x1p-40}, 1},         {DType::bf16, {-1, -0x1p-8, -0x1p-60}, -1 - 0x1p-7},
      {DType::bf16, {0x1p-133, 0x1p-133}, 0x1p-132},   {DType::f16, {1024, 0.5, 0x1p-24}, 1025},
      {DType::f16, {1025, 0.5, -0x1p-24}, 1025},       {DType::f16, {2048, 1, 0x1p-24}, 2050},
      {DType::f16, {65504, 15, 0x1p-24}, 65504},       {DType::f16, {0x1p-24, 0x1p-24, 0x1p-24}, 3 * 0x1p-24},
  };
  for (const auto& [dtype, parts, sum] : cases) {
    std::vector<double> x(kPlaces / 2, 0.0);
    std::copy(parts.begin(), parts.end(), x.begin() + 100);
    const Shape shape{static_cast<std::int64_t>(x.size())};
    const Tensor src = tensor_from(x, shape, dtype), index = full(shape, std::int64_t{77}, DType::i64);
    const Tensor sums = scatter_zero_add(src.to(kGpu), 0, index.to(kGpu).eval(), Shape{kPlaces});
    EXPECT_EQ(sums.to_vector<double>()[77], sum) << name(dtype) << " " << parts[0] << " " << parts[1];
  }
}

// Many lanes of a warp have the same place: all of them, some, two alternately.
TEST_F(ExactSumsOnGpu, FavouritePlaces) {
  const std::int64_t n = 20011;
  const Tensor any = randint(0, kPlaces, {n}), often = rand({n});
  const std::vector<double> numbers = cast(randint(-1000, 1000, {n}), DType::f32).to_vector<double>();
  const std::vector<float> x(numbers.begin(), numbers.end());
  for (const double share : {0.1, 0.5, 1.0}) {
    const auto at = where(often < share, 3 + remainder(arange(n), 2) * 9, any).to_vector<std::int64_t>();
    std::vector<double> want(kPlaces, 0.0);  // exact, as integers are
    for (std::size_t i = 0; i < x.size(); ++i) want[static_cast<std::size_t>(at[i])] += x[i];
    EXPECT_EQ(sums(x, at), want) << share;
  }
}

// Large numbers of other lines need more digits, and slices are added a few at a time: a line's bits stay as they are.
TEST_F(ExactSumsOnGpu, OtherLinesDoNotChangeBits) {
  const cuda::GpuModel before = cuda::gpu(0).model();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Shape& shape : {Shape{5, 8001}, Shape{5, 8001, 2}}) {
      const Shape to = shape.with(1, kPlaces);
      const Tensor src = cast(randn(shape) * exp(2 * randn(shape)), dtype).eval(),
                   index = randint(0, kPlaces, shape).eval();
      const auto sum = [&](const Tensor& x, const Tensor& at) {
        return scatter_add(zeros(to.with(0, x.size(0)), dtype), 1, at.to(kGpu), x.to(kGpu)).eval();
      };
      const std::vector<double> alone = sum(src.slice(0, 3, 4), index.slice(0, 3, 4)).to_vector<double>();
      const Tensor factors = reshape(exp(3 * cast(remainder(arange(5) - 3, 5), DType::f32)), Shape{5, 1, 1});
      const Tensor others = cast(src * reshape(factors, shape.rank() == 2 ? Shape{5, 1} : Shape{5, 1, 1}), dtype);
      for (const std::int64_t bytes :
           {std::int64_t{1}, std::int64_t{2} * 64 * kPlaces * shape.numel() / 40005, before.exact_bytes}) {
        cuda::GpuModel model = before;
        model.exact_bytes = bytes;
        cuda::gpu(0).set_model(model);
        EXPECT_EQ(sum(others, index).slice(0, 3, 4).to_vector<double>(), alone) << name(dtype) << ", " << bytes;
      }
      cuda::gpu(0).set_model(before);
    }
  }
}

TEST_F(ExactSumsOnGpu, AnIndexOutsideIsNamed) {
  std::vector<std::int64_t> at(kPlaces / 2, 1);
  at[12345] = kPlaces;
  const Tensor index = tensor_from(at, Shape{kPlaces / 2}, DType::i64), src = ones({kPlaces / 2});
  const auto message = [&](Device d) -> std::string {
    try {
      scatter_add(zeros({kPlaces}), 0, index.to(d), src.to(d)).to_vector<double>();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was wrong";
  };
  EXPECT_EQ(message(kGpu), message({}));
}

// However it is added, an index out of range is named with its position.
TEST_F(IntegersOnGpu, AnIndexOutsideIsNamed) {
  const auto message = [](const std::function<Tensor()>& f) {
    try {
      f().to_vector<double>();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was wrong");
  };
  for (const DType dtype : {DType::f32, DType::i64}) {
    for (const std::int64_t places : {3, 1000, 40000}) {
      std::vector<std::int64_t> at(3000, 1);
      at[1234] = places;
      const Tensor index = tensor_from(at, Shape{3000}, DType::i64), src = ones({3000}, dtype);
      const Tensor wide = ones({3000, 5}, dtype), lines = reshape(index, {2, 1500});
      for (const auto& f : std::vector<std::function<Tensor(Device)>>{
               [&](Device d) { return index_add(zeros({places}, dtype), 0, index.to(d), src.to(d)); },
               [&](Device d) {
                 return index_add(zeros({places, 5}, dtype), 0, index.to(d), wide.to(d));
               },
               [&](Device d) { return scatter_add(zeros({places}, dtype), 0, index.to(d), src.to(d)); },
               [&](Device d) {
                 return scatter_add(zeros({600, places}, dtype), 1, reshape(index, {600, 5}).to(d),
                                    reshape(src, {600, 5}).to(d));
               },
               [&](Device d) {
                 return scatter_add(zeros({60, places}, dtype), 1, reshape(index, {60, 50}).to(d),
                                    reshape(src, {60, 50}).to(d));
               },
               [&](Device d) {
                 return index_add(zeros({2, places}, dtype), 1, index.slice(0, 1230, 1237).to(d),
                                  ones({2, 7}, dtype).to(d));
               },
               [&](Device d) {
                 return scatter_add(zeros({2, places}, dtype), 1, lines.to(d), reshape(src, {2, 1500}).to(d));
               },
               [&](Device d) {
                 return scatter(zeros({2, places}, dtype), 1, lines.to(d), reshape(src, {2, 1500}).to(d));
               }})
        EXPECT_EQ(message([&] { return f(kGpu); }), message([&] { return f({}); })) << places;
    }
  }
}

TEST_F(IntegersOnGpu, NothingToAdd) {
  const auto none = [](const Shape& shape) { return zeros(shape, DType::i64).to(kGpu); };
  for (const DType dtype : {DType::f32, DType::i64}) {
    EXPECT_EQ(index_add(ones({3}, dtype).to(kGpu), 0, none({0}), ones({0}, dtype)).to_vector<double>(),
              std::vector<double>(3, 1.0));
    EXPECT_EQ(scatter_add(ones({2, 3}, dtype).to(kGpu), 1, none({2, 0}), ones({2, 0}, dtype)).to_vector<double>(),
              std::vector<double>(6, 1.0));
    EXPECT_EQ(index_add(ones({3, 0}, dtype).to(kGpu), 0, none({4}), ones({4, 0}, dtype)).numel(), 0);
    EXPECT_EQ(scatter(ones({2, 3}, dtype).to(kGpu), 1, none({2, 0}), ones({2, 0}, dtype)).to_vector<double>(),
              std::vector<double>(6, 1.0));
  }
}

}  // namespace
}  // namespace ebb::testing
