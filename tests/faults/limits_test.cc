// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <new>

#include "ebb/ebb.h"

// Sizes that no memory could hold: an Error or std::bad_alloc at the call, never a wrapped size, an endless loop or a
// crash. Under the undefined-behaviour sanitizer an intermediate overflow is a failure, too.
namespace ebb {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(),
                       kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHuge[] = {kMost,
                                  kMost - 1,
                                  kMost / 2 + 1,
                                  std::int64_t{1} << 62,
                                  std::int64_t{1} << 61,
                                  std::int64_t{1} << 60,
                                  std::int64_t{1} << 45,
                                  std::int64_t{1} << 32,
                                  3037000500,  // its square is just beyond 2⁶³
                                  kLeast,
                                  -1};

struct Call {
  const char* name;
  std::function<Tensor(std::int64_t)> make;
};

const std::vector<Call>& calls() {
  static const Tensor x = ones({2, 4}), image = ones({1, 4, 6, 6}), volume = ones({1, 2, 3, 4, 4}), none = ones({0, 3});
  static const Tensor empty = ones({1, 0, 0, 0}), line = ones({1, 2, 5});
  static const std::vector<Call> all = {
      {"full",
       [](auto n) {
         return full({n, 3}, 1.0);
       }},
      {"expand",
       [](auto n) {
         return expand(ones({1}), {n, n});
       }},
      {"repeat",
       [](auto n) {
         return repeat(x, {n, n});
       }},
      {"repeat_interleave", [](auto n) { return repeat_interleave(x, n, 1); }},
      {"repeat_interleave by a tensor", [](auto n) { return repeat_interleave(x, full({2}, n), 0); }},
      {"pad",
       [](auto n) {
         return pad(x, {n, n});
       }},
      {"pad by an edge",
       [](auto n) {
         return pad(x, {n, 1}, PadMode::replicate);
       }},
      {"tile of cat",
       [](auto n) {
         return cat({expand(ones({1}), {n}), expand(ones({1}), {n})}, 0);
       }},
      {"arange", [](auto n) { return arange(0, n); }},
      {"arange by a step", [](auto n) { return arange(n, 0, n); }},
      {"linspace", [](auto n) { return linspace(0, 1, n); }},
      {"eye", [](auto n) { return eye(n, n); }},
      {"diag", [](auto n) { return diag(ones({3}), n); }},
      {"narrow", [](auto n) { return narrow(x, 1, n, n); }},
      {"slice", [](auto n) { return slice(x, 1, n, n == kLeast ? kMost : -n, n == 0 ? 1 : n); }},
      {"roll", [](auto n) { return roll(x, {n}, {1}); }},
      {"chunk", [](auto n) { return chunk(none, n, 0)[0]; }},
      {"split", [](auto n) { return split(x, n, 0)[0]; }},
      {"one_hot", [](auto n) { return one_hot(zeros({3}, DType::i64), n); }},
      {"topk", [](auto n) { return topk(x, n).first; }},
      {"reshape",
       [](auto n) {
         return reshape(x, {n, n, n});
       }},
      {"tril", [](auto n) { return tril(x, n); }},
      {"diagonal", [](auto n) { return diagonal(x, n); }},
      {"conv2d padding",
       [](auto n) {
         return conv2d(image, ones({4, 4, 2, 2}), {}, {.padding = n});
       }},
      {"conv2d dilation",
       [](auto n) {
         return conv2d(image, ones({4, 4, 2, 2}), {}, {.dilation = n});
       }},
      {"conv2d groups",
       [](auto n) {
         return conv2d(image, ones({4, 4, 2, 2}), {}, {.groups = n});
       }},
      {"conv2d of a huge window",
       [](auto n) {
         return conv1d(expand(ones({1, 1, 1}), {1, 1, n}), expand(ones({1, 1, 1}), {1, 1, n}), {},
                       {.dilation = 1 << 30});
       }},
      {"conv_transpose2d stride",
       [](auto n) {
         return conv_transpose2d(image, ones({4, 4, 2, 2}), {}, {.stride = n, .dilation = n});
       }},
      {"conv_transpose1d of a huge line",
       [](auto n) {
         return conv_transpose1d(expand(ones({1, 1, 1}), {1, 1, n}), ones({1, 1, 2}), {}, {.stride = 1 << 30});
       }},
      {"conv_transpose2d groups",
       [](auto n) {
         return conv_transpose2d(empty, ones({0, 5, 1, 1}), {}, {.groups = n});
       }},
      {"conv3d",
       [](auto n) {
         return conv3d(volume, ones({2, 2, 2, 2, 2}), {}, {.padding = n, .dilation = n});
       }},
      {"conv3d groups",
       [](auto n) {
         return conv3d(volume, ones({2, 2, 2, 2, 2}), {}, {.groups = n});
       }},
      {"max_pool2d", [](auto n) { return max_pool2d(image, n, {.dilation = n}); }},
      {"avg_pool2d", [](auto n) { return avg_pool2d(image, 2, {.stride = n, .ceil_mode = true}); }},
      {"adaptive_avg_pool1d", [](auto n) { return adaptive_avg_pool1d(line, n); }},
      {"adaptive_avg_pool2d",
       [](auto n) {
         return adaptive_avg_pool2d(image, {n, n});
       }},
      {"adaptive_max_pool1d", [](auto n) { return adaptive_max_pool1d(line, n); }},
      {"unfold", [](auto n) { return unfold(image, 2, {.dilation = n, .padding = n}); }},
      {"unfold window", [](auto n) { return unfold(image, n, {.padding = n}); }},
      {"fold",
       [](auto n) {
         return fold(ones({1, 4, 4}), {n, n}, 2, {});
       }},
      {"fold window",
       [](auto n) {
         return fold(ones({1, 4, 4}), {6, 6}, n, {.padding = n});
       }},
      {"pixel_shuffle", [](auto n) { return pixel_shuffle(image, n); }},
      {"pixel_shuffle of nothing", [](auto n) { return pixel_shuffle(empty, n); }},
      {"pixel_unshuffle", [](auto n) { return pixel_unshuffle(empty, n); }},
      {"interpolate", [](auto n) { return interpolate(image, {.size = {n}}); }},
      {"interpolate by a factor",
       [](auto n) { return interpolate(image, {.scale_factor = {static_cast<double>(n) * 1e10}}); }},
      {"interpolate bilinearly", [](auto n) { return interpolate(image, {.size = {n}, .mode = "bilinear"}); }},
      {"interpolate areas", [](auto n) { return interpolate(image, {.size = {n}, .mode = "area"}); }},
      {"randint", [](auto n) { return randint(n, kMost, {3}); }},
  };
  return all;
}

// Results have valid shapes: no size is negative, and their product does not overflow.
void expect_honest(const Tensor& t) {
  __int128 product = 1;
  for (const std::int64_t size : t.shape()) {
    EXPECT_GE(size, 0);
    product *= size;
  }
  EXPECT_TRUE(product == t.numel());
}

TEST(Limits, HugeSizesAreRefused) {
  set_memory_limit(memory_stats().live + (std::size_t{64} << 20));  // lists of positions count, too
  for (const Call& call : calls()) {
    for (const std::int64_t n : kHuge) {
      try {
        const Tensor made = call.make(n);
        expect_honest(made);
        if (made.numel() < 1000) made.eval();
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      } catch (const std::exception& other) {
        ADD_FAILURE() << call.name << " of " << n << ": " << other.what();
      }
    }
  }
  set_memory_limit(0);
}

TEST(Limits, AFactorThatIsNotANumberIsRefused) {
  const Tensor image = ones({1, 1, 4, 4});
  for (const double factor : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1.0, 1e300, 0.0})
    EXPECT_THROW(interpolate(image, {.scale_factor = {factor}}), Error) << factor;
}

// Nothing to compute takes no time, however many rows have no columns.
TEST(Limits, EmptyTensorsOfBillionsOfRows) {
  const Tensor x = variable(ones({std::int64_t{1} << 40, 0}));
  const Tensor y = softmax(exp(x) * 2 - mean(cat({x, x}, 1), 0, true), 1);
  EXPECT_TRUE(y.eval().to_vector().empty());
  EXPECT_EQ(sum(softmax(x, 1)).item(), 0);
  EXPECT_TRUE(backward(sum(softmax(x, 1)))[x].to_vector().empty());
}

// A chain of 200,000 operations, and one operation of 20,000 operands.
TEST(Limits, DeepAndWideGraphs) {
  Tensor x = variable(ones({3})), y = x;
  for (int k = 0; k < 200'000; ++k) y = y + 1e-6;
  EXPECT_NEAR(backward(sum(y))[x].to_vector()[0], 1, 0);
  std::vector<Tensor> many(20'000, ones({2}).eval());
  EXPECT_EQ(sum(cat(many, 0)).item(), 40'000);
}

}  // namespace
}  // namespace ebb
