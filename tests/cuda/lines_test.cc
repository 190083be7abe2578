// SPDX-License-Identifier: MIT
// Lines on the GPU: scans, the best of a line, copies and scattered sums.
#include <functional>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/library_on_gpu.h"
#include "cuda/runtime/gpu.h"
#include "cuda/tied_numbers.h"
#include "ops/index_nodes.h"

namespace ebb::testing {
namespace {

class LinesOnGpu : public LibraryOnGpu {};

TEST_P(LinesOnGpu, Lines) {
  const Tensor x = real({3, 37, 5}), few = cast(remainder(arange(3 * 37 * 5), 11), GetParam()).eval();
  for (const std::int64_t axis : {0, 1, 2}) {
    compare("cumsum", {x}, [&](const std::vector<Tensor>& in) { return cumsum(in[0], axis); });
    compare("cumprod", {x}, [&](const std::vector<Tensor>& in) { return cumprod(in[0], axis); });
    compare("argmax", {reshape(few, x.shape())}, [&](const std::vector<Tensor>& in) { return argmax(in[0], axis); });
    compare("argmin", {reshape(few, x.shape())}, [&](const std::vector<Tensor>& in) { return argmin(in[0], axis); });
  }
}

// Lines of one piece, of several, of one element more; interleaved, backwards and next to elements of other lines.
TEST_P(LinesOnGpu, ScansOfLongLines) {
  const std::vector<std::int64_t> lengths = device_is_emulated()
                                                ? std::vector<std::int64_t>{1, 7, 255, 257, 2047, 2048, 2049, 6151}
                                                : std::vector<std::int64_t>{1, 255, 2048, 2049, 100003, 4196357};
  for (const std::int64_t n : lengths) {
    const Tensor x = real({2, n});
    for (const int axis : {0, 1}) {
      compare(fmt::format("cumsum of {}, axis {}", n, axis), {x},
              [&](const std::vector<Tensor>& in) { return cumsum(in[0], axis); });
    }
    const Tensor near_one = (1 + x * (0.5 / static_cast<double>(n))).eval();
    compare(fmt::format("cumprod of {}", n), {near_one},
            [&](const std::vector<Tensor>& in) { return cumprod(in[0], 1); });
    compare(fmt::format("cumsum down {} rows", n), {transpose(x, 0, 1).eval()},
            [&](const std::vector<Tensor>& in) { return cumsum(in[0], 0); });
  }
  const Tensor i = randint(-1000000000000, 1000000000000, {3, 5003}).eval();
  EXPECT_EQ(cumsum(i.to(kGpu), 1).to_vector<std::int64_t>(), cumsum(i, 1).to_vector<std::int64_t>());
  EXPECT_EQ(cumprod(i.to(kGpu), 1).to_vector<std::int64_t>(), cumprod(i, 1).to_vector<std::int64_t>());
}

// A line has the same bits alone and among others.
TEST_P(LinesOnGpu, ScansDoNotDependOnOtherLines) {
  const Tensor x = real({5, 4103}).to(kGpu).eval();
  const std::vector<double> all = cumsum(x, 1).to_vector<double>(),
                            alone = cumsum(x.slice(0, 3, 4).eval(), 1).to_vector<double>();
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + 3 * 4103));
}

// The first of equals, wherever pieces begin; NaN before all.
TEST_P(LinesOnGpu, BestOfLongLines) {
  const std::int64_t n = device_is_emulated() ? 9001 : 3000001;
  std::vector<double> numbers(static_cast<std::size_t>(n), 1.0);
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{4095}, std::int64_t{4096}, n / 2, n - 1}) {
    for (const double best : {2.0, std::nan("")}) {
      numbers.assign(static_cast<std::size_t>(n), 1.0);
      numbers[static_cast<std::size_t>(place)] = best;
      if (place + 5000 < n) numbers[static_cast<std::size_t>(place + 5000)] = best;
      const Tensor x = tensor_from(numbers, Shape{n}, GetParam()).to(kGpu).eval();
      EXPECT_EQ(argmax(x, 0).item<std::int64_t>(), place);
      EXPECT_EQ(argmin(-x, 0).item<std::int64_t>(), place);
      const Tensor columns = transpose(stack({x, 0 * x, -x}, 0), 0, 1).eval();
      EXPECT_EQ(argmax(columns, 0).to_vector<std::int64_t>()[0], place);
    }
  }
}

// Groups of lanes, warps and blocks, for lines next to each other, interleaved and backwards; ties, NaN and zeros of
// either sign. The reference looks at one element after the other.
TEST(BestOnGpu, BestOfShortLines) {
  use_emulated_device_without_gpu();
  manual_seed(23);
  const auto expect_best = [](const Tensor& x, const Tensor& there, int axis, const std::string& what) {
    const Tensor lines = transpose(x, axis, x.rank() - 1);
    const std::int64_t n = lines.size(-1);
    const std::vector<double> numbers = lines.to_vector<double>();
    const auto places = [&](const Tensor& found) {
      return transpose(unsqueeze(found, axis), axis, x.rank() - 1).to_vector<std::int64_t>();
    };
    const std::vector<std::int64_t> most = places(argmax(there, axis)), least = places(argmin(there, axis));
    for (std::size_t line = 0; line < most.size(); ++line) {
      const double* const y = numbers.data() + static_cast<std::int64_t>(line) * n;
      const auto best = [&](auto beats) {
        std::int64_t at = 0;
        for (std::int64_t i = 1; i < n; ++i) {
          if (!std::isnan(y[at]) && (std::isnan(y[i]) || beats(y[i], y[at]))) at = i;
        }
        return at;
      };
      ASSERT_EQ(most[line], best(std::greater<>())) << what << ", line " << line;
      ASSERT_EQ(least[line], best(std::less<>())) << what << ", line " << line;
    }
  };
  std::vector<std::int64_t> lengths{1, 2, 3, 5, 8, 9, 17, 33, 255, 256, 257, 512, 513, 1031};
  for (const std::int64_t drawn : randint(1, 600, {6}).to_vector<std::int64_t>()) lengths.push_back(drawn);
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::bool_}) {
    for (const std::int64_t n : lengths) {
      const std::int64_t count = n < 20 ? 701 : 37;
      const Tensor x = tied({count, n}, dtype, 7), there = x.to(kGpu).eval();
      const std::string what = fmt::format("{}, {} lines of {}", name(dtype), count, n);
      expect_best(x, there, 1, what);
      expect_best(transpose(x, 0, 1), transpose(there, 0, 1), 0, what + ", transposed");
      expect_best(flip(x, 1), flip(there, 1), 1, what + ", backwards");
      const Tensor close = tied({5, n, 3}, dtype, 5);
      expect_best(close, close.to(kGpu).eval(), 1, what + ", beside others");
    }
  }
}

// A large GPU is full of such lines' warps.
TEST(BestOnGpu, ManyLinesHaveAWarpEach) {
  use_emulated_device_without_gpu();
  const cuda::GpuModel before = cuda::gpu(0).model();
  cuda::GpuModel model = before;
  model.best_tasks = 1;
  cuda::gpu(0).set_model(model);
  const Tensor x = tied({19, 3001}, DType::f32), there = x.to(kGpu).eval();
  EXPECT_EQ(argmax(there, 1).to_vector<std::int64_t>(), argmax(x, 1).to_vector<std::int64_t>());
  const Tensor few = tied({300, 5}, DType::bf16), moved = few.to(kGpu).eval();
  EXPECT_EQ(argmin(moved, 1).to_vector<std::int64_t>(), argmin(few, 1).to_vector<std::int64_t>());
  cuda::gpu(0).set_model(before);
}

// Runs within a thread, a piece and over many of them; integers, whose sums are exact until they are rounded.
TEST_P(LinesOnGpu, SumsOfRuns) {
  std::vector<std::int64_t> lengths{1, 2, 31, 32, 33, 255, 256, 257, 2048, 2049, 6151};
  for (const std::int64_t drawn : randint(1, 3000, {3}).to_vector<std::int64_t>()) lengths.push_back(drawn);
  for (const std::int64_t n : lengths) {
    for (const double often : {0.0, 0.001, 0.05, 0.6, 1.0}) {
      const Tensor starts = rand({11, n}) < often, g = cast(randint(-2, 4, {11, n}), GetParam()).eval();
      std::vector<std::int64_t> index = broadcast_to(arange(n), {11, n}).to_vector<std::int64_t>();
      const std::vector<double> begins = cast(starts, DType::f64).to_vector<double>(), x = g.to_vector<double>();
      std::vector<double> want(x.size(), 0.0);
      for (std::size_t e = 0; e < x.size(); ++e) {
        if (begins[e] == 0 && index[e] != 0) index[e] = index[e - 1];
        want[e - e % static_cast<std::size_t>(n) + static_cast<std::size_t>(index[e])] += x[e];
      }
      const std::vector<double> rounded = tensor_from(want, {11, n}, GetParam()).to_vector<double>();
      const Tensor at = tensor_from(index, {11, n}, DType::i64).to(kGpu).eval(), there = g.to(kGpu).eval();
      const auto down = [](const Tensor& t) { return transpose(t, 0, 1).eval(); };
      const auto sums = [](const Tensor& t, int axis, const Tensor& i) {
        return scatter_zero_add(t, axis, i, t.shape(), IndexLines::runs);
      };
      const std::string what = fmt::format("{} elements, {}", n, often);
      EXPECT_EQ(sums(there, 1, at).to_vector<double>(), rounded) << what;
      EXPECT_EQ(down(sums(down(there), 0, down(at))).to_vector<double>(), rounded) << what << ", down";
      EXPECT_EQ(transpose(sums(transpose(there, 0, 1), 0, down(at)), 0, 1).to_vector<double>(), rounded)
          << what << ", views";
      const Tensor three = down(there.slice(0, 0, 3)), places = down(at.slice(0, 0, 3));
      const std::vector<double> close = down(sums(three, 0, places)).to_vector<double>();
      EXPECT_TRUE(std::equal(close.begin(), close.end(), rounded.begin())) << what << ", beside two others";
    }
  }
}

// s_i = g_i + x_{i+1}·s_{i+1} against long double: lines of every kind, factors that grow, vanish or are zero.
TEST_P(LinesOnGpu, LinearRecurrences) {
  std::vector<std::int64_t> lengths{1, 2, 31, 33, 255, 256, 257, 2049, 6151};
  for (const std::int64_t drawn : randint(1, 3000, {3}).to_vector<std::int64_t>()) lengths.push_back(drawn);
  for (const std::int64_t n : lengths) {
    for (const double size : {0.0, 0.5, 1.0, 3.0}) {
      const Tensor any = cast(size + 0.2 * randn({11, n}), GetParam()), g = real({11, n});
      const Tensor x = where(rand({11, n}) < 0.002, 0, any).eval();
      const std::vector<double> of_g = g.to_vector<double>(), of_x = x.to_vector<double>();
      std::vector<double> want(of_g.size()), most(of_g.size());
      for (std::size_t line = 0; line < 11; ++line) {
        long double carry = 0, bound = 0;
        bool overflows = false;  // f64: then 0·∞ may follow
        for (std::size_t i = static_cast<std::size_t>(n); i-- > 0;) {
          const std::size_t e = line * static_cast<std::size_t>(n) + i;
          const long double s = of_g[e] + carry, size_of_terms = std::fabs(of_g[e]) + bound;
          overflows |= size_of_terms > 1e307L;
          want[e] = static_cast<double>(s), most[e] = overflows ? HUGE_VAL : static_cast<double>(size_of_terms);
          carry = of_x[e] * s, bound = std::fabs(of_x[e]) * size_of_terms;
        }
      }
      const double largest = GetParam() == DType::f64 ? 1e308 : GetParam() == DType::f16 ? 6e4 : 3e38;
      const double epsilon = GetParam() == DType::f64   ? 1e-11
                             : GetParam() == DType::f32 ? 1.2e-7
                             : GetParam() == DType::f16 ? 1e-3
                                                        : 8e-3;
      const Tensor there = g.to(kGpu).eval(), factors = x.to(kGpu).eval();
      const auto down = [](const Tensor& t) { return transpose(t, 0, 1).eval(); };
      for (const Tensor& found :
           {linear_recurrence(there, factors, 1), transpose(linear_recurrence(down(there), down(factors), 0), 0, 1),
            transpose(linear_recurrence(transpose(there, 0, 1), down(factors), 0), 0, 1), linear_recurrence(g, x, 1)}) {
        const std::vector<double> got = found.to_vector<double>();
        for (std::size_t e = 0; e < got.size(); ++e) {
          if (most[e] > 0.9 * largest) continue;  // it may overflow
          ASSERT_NEAR(got[e], want[e],
                      epsilon * std::fabs(want[e]) + 1e-11 * most[e] + (GetParam() == DType::f16 ? 1e-7 : 0))
              << n << " elements, factors near " << size << ", element " << e;
        }
      }
    }
  }
  const Tensor g = real({3, 5}), x = real({3, 5});
  compare("linear_recurrence", {g, x},
          [](const std::vector<Tensor>& in) { return linear_recurrence(in[0], in[1], 1); });
}

// Factors of a piece that multiply to more than f64 holds, and nothing behind them.
TEST_P(LinesOnGpu, LargeFactorsOfNothing) {
  const std::int64_t n = 3000;
  const Tensor x = full({n}, 15.0, GetParam()), g = cast(arange(n) < 3, GetParam()).eval();
  const std::vector<double> s = linear_recurrence(g.to(kGpu), x.to(kGpu).eval(), 0).to_vector<double>();
  EXPECT_EQ(std::vector<double>(s.begin(), s.begin() + 4), (std::vector<double>{241, 16, 1, 0}));
}

// Products along lines, with zeros and infinities among them.
TEST_P(LinesOnGpu, GradientsOfProducts) {
  for (const std::int64_t n : {1, 3, 40, 513}) {
    const Tensor x = cast(1 + randn({6, n}) * (0.5 / static_cast<double>(n)), GetParam()).eval();
    for (const int axis : {0, 1}) {
      const auto along = [axis](auto f) {
        return [axis, f](const std::vector<Tensor>& in) { return f(axis == 1 ? in[0] : transpose(in[0], 0, 1), axis); };
      };
      const auto all = along([](const Tensor& t, int a) { return prod(t, a); });
      const auto so_far = along([](const Tensor& t, int a) { return cumprod(t, a); });
      const Tensor zeros_among = where(rand({6, n}) < 1.5 / static_cast<double>(n), 0, x).eval();
      for (const Tensor& y : {x, zeros_among}) {
        compare(fmt::format("prod of {}, axis {}", n, axis), {y}, all);
        compare(fmt::format("cumprod of {}, axis {}", n, axis), {y}, so_far);
      }
    }
  }
}

// Ties, NaN and infinities; a line has the same bits alone and among others.
TEST_P(LinesOnGpu, GradientsOfExtremaSoFar) {
  for (const std::int64_t n : {5, 40, 700, 4100, 8300}) {
    for (const int axis : {0, 1}) {
      const Tensor x = axis == 1 ? tied({9, n}, GetParam()) : transpose(tied({9, n}, GetParam()), 0, 1).eval();
      const auto of = [&](bool largest) {
        return [axis, largest](const std::vector<Tensor>& in) {
          return where(in[0] == in[0], (largest ? cummax(in[0], axis) : cummin(in[0], axis)).first, 0);
        };
      };
      compare(fmt::format("cummax of {}, axis {}", n, axis), {x}, of(true));
      compare(fmt::format("cummin of {}, axis {}", n, axis), {x}, of(false));
    }
    const Tensor g = real({5, n}).to(kGpu).eval(), at = cummax(randn({5, n}), 1).second.to(kGpu).eval();
    const auto sums = [n](const Tensor& t, const Tensor& i) {
      return scatter_zero_add(t, 1, i, t.shape(), IndexLines::runs).to_vector<double>();
    };
    const std::vector<double> all = sums(g, at), alone = sums(g.slice(0, 3, 4).eval(), at.slice(0, 3, 4).eval());
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + 3 * n));
  }
}

// A single long row is the work of many blocks, wherever an element of it is picked or placed.
TEST_P(LinesOnGpu, ALongRowAlone) {
  if (GetParam() == DType::f64) GTEST_SKIP() << "as in f32";
  const std::int64_t n = (1 << 18) + 7;
  const Tensor x = real({1, n}), target = full({1}, n - 3, DType::i64);
  compare("focal loss", {x},
          [&](const std::vector<Tensor>& in) { return softmax_focal_loss(in[0], target.to(in[0].device()), {}); });
  compare("cross-entropy", {x},
          [&](const std::vector<Tensor>& in) { return cross_entropy(in[0], target.to(in[0].device()), {}); });
  const Tensor there = variable(x.to(kGpu).eval());
  const Tensor loss = softmax_focal_loss(there, target.to(kGpu), {}), slope = backward(loss)[there];
  const std::vector<Tensor> results{loss, slope};
  EXPECT_EQ(print_schedule(results).find("block per row"), std::string::npos) << print_schedule(results);
  const auto message = [](const Tensor& y, std::int64_t place) -> std::string {
    try {
      cross_entropy(y, full({1}, place, DType::i64).to(y.device()), {}).item<double>();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was wrong";
  };
  EXPECT_EQ(message(x, n), message(x.to(kGpu), n));
  EXPECT_NE(message(x, n).find(fmt::format("{}", n)), std::string::npos) << message(x, n);
}

// Rows of any length and start: copies take as many bytes at a time as both allow.
TEST_P(LinesOnGpu, CopiesOfAllLengths) {
  const Tensor x = real({3, 2, 40}), there = x.to(kGpu).eval();
  for (const std::int64_t first : {0, 1, 2, 4, 8, 16}) {
    for (const std::int64_t length : {1, 2, 3, 4, 6, 8, 16, 24}) {
      const auto f = [&](const Tensor& y) {
        const Tensor part = narrow(y, 2, first, length);
        return cat({cat({part, narrow(y, 2, 0, 8), part}, 2), cat({part, part, narrow(y, 2, 16, 8)}, 2)}, 1);
      };
      ASSERT_EQ(f(x).to_vector<double>(), f(there).to_vector<double>()) << first << ", " << length;
    }
  }
}

// Bytes from and to any address: every head and tail, words cut out of two; what lies beside stays as it is.
TEST(CopiesOnGpu, BytesFromAndToAnyAddress) {
  use_emulated_device_without_gpu();
  manual_seed(31);
  const std::vector<std::int64_t> lengths{0, 1, 3, 15, 16, 17, 31, 47, 48, 100, 1000, 5003, 70001};
  for (int from = 0; from < 17; ++from) {
    for (const std::int64_t length : lengths) {
      for (const int to : {0, 1, 2, 7, 8, 15}) {
        if (length > 2000 && (from + to) % 3 != 0) continue;
        const std::int64_t room = length + 40;
        const Tensor x = cast(randint(0, 256, {room}), DType::u8).eval(), there = x.to(kGpu).eval();
        const Tensor front = cast(randint(0, 256, {to}), DType::u8).eval(), behind = front + 1;
        const auto joined = [&](const Tensor& y) {
          const Device d = y.device();
          return cat({front.to(d), narrow(y, 0, from, length), behind.eval().to(d), narrow(y, 0, from + 1, length)}, 0);
        };
        ASSERT_EQ(joined(there).to_vector<double>(), joined(x).to_vector<double>())
            << length << " bytes from " << from << " to " << to;
      }
    }
  }
}

// Rows that begin anywhere, copied by warps that have a whole part of one.
TEST_P(LinesOnGpu, CopiesOfOddRows) {
  for (const std::int64_t length : {17, 129, 255, 513, 1031}) {
    const Tensor x = real({7, length + 9}), there = x.to(kGpu).eval();
    for (const std::int64_t first : {0, 1, 3}) {
      const auto f = [&](const Tensor& y) {
        return cat({narrow(y, 1, 0, 1), narrow(y, 1, first, length), narrow(y, 1, first + 1, length)}, 1);
      };
      ASSERT_EQ(f(x).to_vector<double>(), f(there).to_vector<double>()) << first << ", " << length;
    }
  }
}

// From one order of dimensions to another, by tiles where both innermost ones are long enough; tiles at the edges.
TEST_P(LinesOnGpu, CopiesIntoAnotherOrder) {
  for (const Shape& shape :
       {Shape{2, 65, 3, 67}, Shape{3, 17, 130}, Shape{9, 8, 1, 70}, Shape{1, 4200, 8}, Shape{2, 7, 31}}) {
    const Tensor x = real(shape), there = x.to(kGpu).eval();
    const int last = shape.rank() - 1;
    for (const auto& [a, b] : {std::pair{1, last}, std::pair{0, last}, std::pair{0, 1}}) {
      const auto f = [a = a, b = b](const Tensor& y) {
        const Tensor turned = transpose(y, a, b);
        return cat({turned, narrow(turned, 0, 0, 1)}, 0);
      };
      ASSERT_EQ(f(x).to_vector<double>(), f(there).to_vector<double>()) << fmt::format("{}, {} and {}", shape, a, b);
    }
    const Tensor small = cast(randint(0, 256, shape), DType::u8).eval();
    const auto bytes = [&](const Tensor& y) { return cat({transpose(y, 1, last), transpose(y, 1, last)}, 0); };
    ASSERT_EQ(bytes(small).to_vector<double>(), bytes(small.to(kGpu).eval()).to_vector<double>()) << fmt::format("{}", shape);
  }
}

// Lines with repeated places, in shared memory or not; an axis that is not the last; fewer lines than the result has.
// Parts of a few elements and of many, from anywhere, forwards and backwards and repeated, with zeros between them: one
// launch writes whole words of the result, whatever lies in them.
TEST_P(LinesOnGpu, PartsAreJoined) {
  const auto join = [&](const std::string& what, const std::vector<Tensor>& parts, std::int64_t axis) {
    compare(fmt::format("{}, axis {}", what, axis), parts,
            [&](const std::vector<Tensor>& in) { return cat(in, axis); });
  };
  for (const std::int64_t n : {1, 2, 3, 5, 8, 33, 64}) {
    const Tensor x = real({7, n}), y = real({7, 2}), z = real({7, 16}), w = real({7, n, 3}), v = real({7, 4, 3});
    join(fmt::format("columns of {} and 2", n), {x, y}, 1);
    join(fmt::format("columns of 16 and {}", n), {z, x}, 1);
    join(fmt::format("columns of 2, {}, 16 and 2", n), {y, x, z, y}, 1);
    join(fmt::format("columns of 2, {}, 2, 2, 16, {} and 2", n, n), {y, x, y, y, z, x, y}, 1);
    join(fmt::format("lines of {} and 4", n), {w, v}, 1);
    join(fmt::format("matrices of {}", n), {w, w}, 2);
    for (const auto& [before, after] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {3, 0}, {2, 5}, {8, 16}}) {
      const std::vector<std::int64_t> of_last{before, after}, of_lines{0, 0, before, after};
      compare(fmt::format("zeros around {}", n), {x},
              [&](const std::vector<Tensor>& in) { return pad(in[0], of_last); });
      compare(fmt::format("zeros around lines of {}", n), {w},
              [&](const std::vector<Tensor>& in) { return pad(in[0], of_lines); });
    }
    compare(fmt::format("a part of {}", n), {x}, [](const std::vector<Tensor>& in) { return select(in[0], 1, 0) * 2; });
    if (n < 3) continue;
    for (const PadMode mode : {PadMode::reflect, PadMode::replicate}) {
      compare(fmt::format("borders of {}", n), {real({2, 3, 5, n})}, [&](const std::vector<Tensor>& in) {
        return pad(in[0], {2, 1, 1, 2}, mode);
      });
    }
    compare(fmt::format("rolled lines of {}", n), {x}, [](const std::vector<Tensor>& in) { return roll(in[0], 1, 1); });
    compare(fmt::format("rolled rows of {}", n), {w}, [](const std::vector<Tensor>& in) { return roll(in[0], 2, 1); });
    compare(fmt::format("columns of a transposed matrix of {}", n), {real({n, 7}), y},
            [](const std::vector<Tensor>& in) {
              return cat({transpose(in[0], 0, 1), in[1]}, 1);
            });
    compare(fmt::format("every second of {}", n), {real({7, 2 * n}), y}, [n](const std::vector<Tensor>& in) {
      return cat({in[0].slice(1, 0, 2 * n, 2), in[1], in[0].slice(1, 0, n)}, 1);
    });
  }
}

TEST(JoinsOnGpu, ElementsOfEverySize) {
  use_emulated_device_without_gpu();
  for (const DType dtype : {DType::u8, DType::bool_, DType::i32, DType::i64}) {
    const Tensor x = cast(remainder(arange(7 * 5), 2), dtype).eval(),
                 y = cast(remainder(arange(7 * 3), 3), dtype).eval();
    const auto joined = [&](Device device) {
      const Tensor a = reshape(x, {7, 5}).to(device), b = reshape(y, {7, 3}).to(device);
      return cast(cat({a, b, a}, 1), DType::i64).to_vector<std::int64_t>();
    };
    EXPECT_EQ(joined({}), joined(kGpu)) << name(dtype);
  }
}

TEST_P(LinesOnGpu, SumsOfScatteredLines) {
  for (const std::int64_t size : {3, 300, 7000}) {
    const Tensor x = real({3, size}), index = randint(0, size, {3, 500}).eval();
    const std::string of = " of " + std::to_string(size);
    compare("gather" + of, {x},
            [&](const std::vector<Tensor>& in) { return gather(in[0], 1, index.to(in[0].device())); });
    compare("gather along the first axis" + of, {transpose(x, 0, 1)},
            [&](const std::vector<Tensor>& in) { return gather(in[0], 0, transpose(index.to(in[0].device()), 0, 1)); });
    compare("gather of some lines" + of, {x},
            [&](const std::vector<Tensor>& in) { return gather(in[0], 1, index.to(in[0].device()).slice(0, 0, 2)); });
    const Tensor y = real({3, 500});
    compare("scatter" + of, {x, y},
            [&](const std::vector<Tensor>& in) { return scatter(in[0], 1, index.to(in[0].device()), in[1]); });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LinesOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
