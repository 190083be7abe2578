// SPDX-License-Identifier: MIT
// Attention by threads on cuda:0, a GPU if there is one, else the emulated device: f32, and halves whose rows tensor
// cores do not take, against f64 on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/backend.h"
#include "cuda/library/attention_plan.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Drawn {
  std::int64_t batch = 1, heads = 1, groups = 1, rows = 1, columns = 1, width = 1, values = 1;
  bool causal = false, documents = false;
  int mask = 0;  // dimensions that it has
  double spread = 1;
  std::optional<double> scale = {};
};
std::string text(const Drawn& c) {
  return fmt::format("{} × {} heads of {}, {} × {} rows of {} and {}{}{}, mask of {} dimensions, spread {}, scale {}",
                     c.batch, c.heads, c.groups, c.rows, c.columns, c.width, c.values, c.causal ? ", causal" : "",
                     c.documents ? ", documents" : "", c.mask, c.spread, c.scale.value_or(0));
}

class AttentionByThreads : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(11);
  }
  static std::string path(std::int64_t width, std::int64_t values, const AttentionCall& call = {}) {
    View q{}, v{};
    q.dtype = v.dtype = GetParam(), q.shape = {1, 1, 9, width}, v.shape = {1, 1, 9, values};
    return cuda::plan_attention(cuda::gpu(0), call, q, q, v).text();
  }
  // o, dq, dk, dv.
  static std::vector<Tensor> all_of(const Drawn& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                    const Tensor& mask, const Tensor& documents) {
    AttentionOptions options{.causal = c.causal, .scale = c.scale};
    if (c.mask) options.mask = mask;
    if (c.documents) options.documents = documents;
    const Tensor x = variable(q), y = variable(k), z = variable(v);
    const Tensor o = scaled_dot_product_attention(x, y, z, options);
    const Gradients all = backward(sum(o * g));
    return {o, all[x], all[y], all[z]};
  }
  static void compare(const Drawn& c) {
    SCOPED_TRACE(text(c));
    const std::int64_t shared = c.heads / c.groups;
    const auto drawn = [](const Tensor& x) { return cast(x, GetParam()).eval(); };
    const Tensor q = drawn(c.spread * randn({c.batch, c.heads, c.rows, c.width})),
                 k = drawn(randn({c.batch, shared, c.columns, c.width})),
                 v = drawn(randn({c.batch, shared, c.columns, c.values})),
                 g = drawn(randn({c.batch, c.heads, c.rows, c.values}));
    const Shape masks[] = {{c.columns}, {c.columns}, {c.rows, c.columns}, {c.heads, c.rows, c.columns},
                           {c.batch, 1, c.rows, c.columns}};
    const Tensor noise = randn(masks[c.mask]).eval();
    const Tensor mask = where(noise > 1, -kInf, noise).eval();
    const Tensor documents = cast(cumsum(cast(rand({c.batch, c.columns}) < 0.1, DType::f32), -1), DType::i64).eval();
    const auto on = [&](Device device, DType dtype) {
      const auto moved = [&](const Tensor& x) { return cast(x, dtype).to(device).eval(); };
      return all_of(c, moved(q), moved(k), moved(v), moved(g),
                    cast(mask, dtype == DType::f64 ? DType::f64 : DType::f32).to(device).eval(),
                    documents.to(device).eval());
    };
    expect_close(on({}, DType::f64), on(kGpu, GetParam()), c.spread);
  }
  // Relative to the largest element: each is a sum of many. A gradient of 0 is a difference of two
  // numbers around ten times the spread.
  static void expect_close(const std::vector<Tensor>& expected, const std::vector<Tensor>& got, double spread = 1) {
    static const char* const kNames[] = {"o", "dq", "dk", "dv"};
    const double tolerance = GetParam() == DType::f32 ? 5e-6 : GetParam() == DType::f16 ? 2e-3 : 1.5e-2;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), GetParam());
      const std::vector<double> a = expected[i].to_vector<double>(), b = got[i].to_vector<double>();
      ASSERT_EQ(a.size(), b.size());
      double largest = 0;
      for (const double x : a) largest = std::max(largest, std::fabs(x));
      for (std::size_t e = 0; e < a.size(); ++e)
        ASSERT_LE(std::fabs(a[e] - b[e]), tolerance * largest + 2e-6 * (3 + spread))
            << kNames[i] << ", element " << e << ": " << b[e] << " instead of " << a[e];
    }
  }
};

TEST_P(AttentionByThreads, PlansAreLines) {
  EXPECT_EQ(path(5, 9), "fused by threads, 64 rows by 64 columns");
  EXPECT_EQ(path(95, 1, {.mask = true, .documents = true}),
            "fused by threads, 64 rows by 64 columns, masked, documents");
  EXPECT_EQ(path(5, 97), "products over rows of scores");
  EXPECT_EQ(path(64, 64) == "fused by threads, 64 rows by 64 columns", GetParam() == DType::f32);
}

// Sizes around those of tiles, and any others.
TEST_P(AttentionByThreads, DrawnSizes) {
  std::mt19937 random(GetParam() == DType::f32 ? 1 : 2);
  const auto one_of = [&](auto... x) {
    const std::int64_t all[] = {static_cast<std::int64_t>(x)...};
    return all[random() % sizeof...(x)];
  };
  const bool half = GetParam() != DType::f32;
  for (int i = 0; i < (half ? 8 : 24); ++i) {
    Drawn c;
    c.groups = one_of(1, 1, 2, 3), c.heads = c.groups * one_of(1, 2), c.batch = one_of(1, 2);
    c.rows = one_of(1, 63, 64, 65, 130, random() % 150 + 1);
    c.columns = one_of(1, 63, 64, 65, 130, random() % 150 + 1);
    const std::int64_t odd = random() % 95 + 1;
    c.width = half ? odd / 2 * 2 + 1 : one_of(1, 4, 16, 17, 20, 32, 64, 96, odd);
    c.values = one_of(c.width, c.width, 3, 16, 33, 64, 96);
    c.causal = random() % 2, c.documents = random() % 3 == 0, c.mask = static_cast<int>(one_of(0, 0, 1, 2, 3, 4));
    if (c.documents) c.columns = c.rows;
    if (random() % 3 == 0) c.spread = 30, c.scale = 0.1;
    if (random() % 6 == 0) c.scale = random() % 2 ? -0.3 : 0.0;
    compare(c);
  }
}

// Rows at any address, columns before rows, heads of one projection, a cotangent that is one number.
TEST_P(AttentionByThreads, AnyStrides) {
  for (const std::int64_t width : {8, 5}) {
    const Tensor x = cast(randn({2, 19, 3 * 3 * width + 1}), GetParam()).eval();
    const Tensor t = cast(randn({2, 3, width, 19}), GetParam()).eval();
    for (const std::int64_t from : {0, 1}) {
      const auto on = [&](Device device, DType dtype) {
        const Tensor at = variable(cast(x, dtype).to(device).eval()), turned = cast(t, dtype).to(device).eval();
        const auto of = [&](bool all) {  // with one number as the cotangent, or a view
          std::vector<Tensor> parts = chunk(narrow(at, 2, from, 3 * 3 * width), 3, 2);
          for (Tensor& part : parts) part = permute(reshape(part, {2, 19, 3, width}), {0, 2, 1, 3});
          const Tensor o = scaled_dot_product_attention(parts[0], transpose(turned, -1, -2), parts[2]);
          return all ? o * parts[1] : o;
        };
        return std::vector<Tensor>{of(false), backward(sum(of(true)))[at], backward(sum(of(false)))[at]};
      };
      expect_close(on({}, DType::f64), on(kGpu, GetParam()));
    }
  }
}

// As on the CPU: rows of NaN and of infinite scores are NaN, a row that attends to nothing is 0 and so are its
// gradients.
TEST_P(AttentionByThreads, RowsThatAreNotFinite) {
  const Tensor row = reshape(arange(5), {1, 1, 5, 1}), ones_of_q = ones({1, 1, 5, 5}), k = ones({1, 1, 70, 5});
  const Tensor q = where(row == 1, std::nan(""), where(row == 2, kInf, where(row == 3, -kInf, ones_of_q)));
  const auto on = [&](Device device, DType dtype) {
    const auto moved = [&](const Tensor& x) { return cast(x, dtype).to(device).eval(); };
    manual_seed(5);
    return scaled_dot_product_attention(moved(q), moved(k), moved(randn(k.shape()))).to_vector<double>();
  };
  const std::vector<double> here = on({}, DType::f64), there = on(kGpu, GetParam());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(std::isnan(here[i]), std::isnan(there[i])) << i;
    EXPECT_EQ(i / 5 == 1 || i / 5 == 2, std::isnan(there[i])) << i;
    if (i / 5 == 3) {
      EXPECT_EQ(there[i], 0) << i;
    }
  }
  const Tensor x = cast(where(row == 3, -kInf, ones_of_q), GetParam()).to(kGpu).eval();
  const Tensor v = variable(cast(k, GetParam()).to(kGpu).eval());
  const Tensor o = scaled_dot_product_attention(x, cast(k, GetParam()).to(kGpu), v);
  for (const double d : backward(sum(cast(o, DType::f32)))[v].to_vector<double>()) EXPECT_NEAR(d, 4.0 / 70, 1e-3);
}

// The same bits every time and alone as in a batch.
TEST_P(AttentionByThreads, RowsDoNotDependOnTheirBatch) {
  const auto drawn = [] { return cast(randn({6, 1, 131, 7}), GetParam()).to(kGpu).eval(); };
  const Tensor x = drawn(), g = drawn();
  const auto one = [](const Tensor& y) { return narrow(y, 0, 4, 1).eval(); };
  for (const bool causal : {false, true}) {
    Drawn c;
    c.causal = causal;
    const std::vector<Tensor> all = all_of(c, x, x, x, g, {}, {}), again = all_of(c, x, x, x, g, {}, {}),
                              alone = all_of(c, one(x), one(x), one(x), one(g), {}, {});
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].to_vector<double>(), again[i].to_vector<double>());
      EXPECT_EQ(one(all[i]).to_vector<double>(), alone[i].to_vector<double>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionByThreads, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace ebb::testing
