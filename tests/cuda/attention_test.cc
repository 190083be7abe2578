// SPDX-License-Identifier: MIT
// Attention on cuda:0, a GPU if there is one, else the emulated device: values and gradients; the fused kernels of
// halves against f64 on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/compile_for_gpu.h"
#include "cuda/library/attention_plan.h"
#include "cuda/library_on_gpu.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

class AttentionOnGpu : public LibraryOnGpu {};

// Whole, and some rows of scores at a time: several batches, or some positions of one.
TEST_P(AttentionOnGpu, Attention) {
  cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::GpuModel before = gpu.model();
  const std::int64_t usual = before.score_bytes;
  for (const auto& [bytes, causal] :
       {std::pair{usual, false}, {usual, true}, {800l, false}, {200l, false}, {200l, true}}) {
    cuda::GpuModel model = before;
    model.score_bytes = bytes;
    gpu.set_model(model);
    const Tensor q = real({2, 3, 7, 5}), k = real({2, 3, 9, 5}), v = real({2, 3, 9, 4});
    AttentionOptions o;
    o.causal = causal;
    compare("attention", {q, k, v},
            [&](const std::vector<Tensor>& in) { return scaled_dot_product_attention(in[0], in[1], in[2], o); });
    compare("attention of grouped queries", {real({2, 6, 7, 5}), k, v},
            [&](const std::vector<Tensor>& in) { return scaled_dot_product_attention(in[0], in[1], in[2], o); });
  }
  gpu.set_model(before);
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionOnGpu, kFloats, dtype_of_test);

struct AttentionCase {
  Shape q, k, v;
  bool causal = false;
  double spread = 1;  // of queries: how large scores become
  std::optional<double> scale = {};
};
std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << fmt::format("q {}, k {}, v {}{}, spread {}", c.q, c.k, c.v, c.causal ? ", causal" : "", c.spread);
}

class FusedAttention : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(3);
  }
  // o, dq, dk, dv for a cotangent g.
  static std::vector<Tensor> all_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                    const AttentionCase& c) {
    const Tensor x = variable(q), y = variable(k), z = variable(v);
    const Tensor o = scaled_dot_product_attention(x, y, z, {.causal = c.causal, .scale = c.scale});
    const Gradients all = backward(sum(o * g));
    return {o, all[x], all[y], all[z]};
  }
  // Relative to the largest element: each is a sum of many products of weights rounded `times` times.
  static void expect_close(const std::vector<Tensor>& expected, const std::vector<Tensor>& got, DType dtype,
                           int times = 1) {
    static const char* const kNames[] = {"o", "dq", "dk", "dv"};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), dtype);
      const std::vector<double> a = expected[i].to_vector<double>(), b = got[i].to_vector<double>();
      ASSERT_EQ(a.size(), b.size());
      double largest = 0;
      for (const double x : a) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0);
      for (std::size_t e = 0; e < a.size(); ++e) {
        if (std::isnan(a[e]) && std::isnan(b[e])) continue;
        ASSERT_LE(std::fabs(a[e] - b[e]), times * (dtype == DType::bf16 ? 2e-2 : 2.5e-3) * largest + 1e-6)
            << kNames[i] << ", element " << e << ": " << b[e] << " instead of " << a[e];
      }
    }
  }
  void compare(const AttentionCase& c) const {
    SCOPED_TRACE(::testing::PrintToString(c));
    const Tensor q = cast(c.spread * randn(c.q), GetParam()).eval(), k = cast(randn(c.k), GetParam()).eval(),
                 v = cast(randn(c.v), GetParam()).eval();
    const Tensor g = cast(randn(scaled_dot_product_attention(q, k, v).shape()), GetParam()).eval();
    const auto wide = [](const Tensor& x) { return cast(x, DType::f64).eval(); };
    expect_close(all_of(wide(q), wide(k), wide(v), wide(g), c),
                 all_of(q.to(kGpu), k.to(kGpu), v.to(kGpu), g.to(kGpu), c), GetParam());
  }
};

// Lengths around those of tiles, columns that no row sees, rows that see all columns.
TEST_P(FusedAttention, LengthsAroundTiles) {
  for (const bool causal : {false, true}) {
    compare({{1, 65, 8}, {1, 63, 8}, {1, 63, 8}, causal});
    compare({{1, 7, 8}, {1, 130, 8}, {1, 130, 8}, causal});
    compare({{1, 140, 8}, {1, 70, 8}, {1, 70, 8}, causal});
    compare({{2, 1, 8}, {2, 1, 8}, {2, 1, 8}, causal});
  }
}

// Rows that warpgroups multiply on Hopper: several steps in both directions, several groups and blocks.
TEST_P(FusedAttention, LengthsAroundTilesOfGroups) {
  for (const std::int64_t width : {64, 128}) {
    for (const bool causal : {false, true}) {
      compare({{1, 200, width}, {1, 200, width}, {1, 200, width}, causal});
      compare({{2, 65, width}, {2, 330, width}, {2, 330, width}, causal});
      compare({{1, 270, width}, {1, 63, width}, {1, 63, width}, causal});
    }
  }
}
TEST_P(FusedAttention, WidthsOfGroups) {
  for (const std::int64_t width : {8, 40, 72, 80, 96, 112, 136, 192, 256})
    compare({{1, 140, width}, {1, 150, width}, {1, 150, width}, true});
  compare({{1, 70, 192}, {1, 130, 192}, {1, 130, 128}});
  compare({{1, 200, 64}, {1, 270, 64}, {1, 270, 56}, true});
  compare({{1, 20, 64}, {1, 2100, 64}, {1, 2100, 64}});  // so many columns that rows of 64 take these kernels
  compare({{1, 70, 80}, {1, 130, 80}, {1, 130, 256}, true});
}

// The emulated device has no products of warpgroups: their text is compiled.
TEST_P(FusedAttention, ProductsOfGroupsCompile) {
  EBB_SKIP_WITHOUT_NVRTC();
  for (const std::int64_t width : {64, 80, 256}) {
    const cuda::AttentionPlan plan = cuda::pipelined_attention_plan(width, width, GetParam(), width == 80, width != 64);
    using cuda::ColumnGradients;
    std::vector<cuda::KernelSource> sources{attention_forward_source(plan), attention_row_gradient_source(plan)};
    if (plan.splits_columns()) {
      sources.push_back(attention_column_gradient_source(plan, ColumnGradients::k));
      sources.push_back(attention_column_gradient_source(plan, ColumnGradients::v));
    } else {
      sources.push_back(attention_column_gradient_source(plan, ColumnGradients::both));
    }
    if (width == 64) {
      sources.push_back(cuda::attention_source(
          {.path = cuda::AttentionPlan::Path::groups, .width = 64, .values = 64, .dtype = GetParam(), .slices = 1}));
    }
    for (const cuda::KernelSource& source : sources)
      EXPECT_EQ(compile_error(cuda::prelude() + source.text, "sm_90a"), "") << plan.text();
  }
}

// With little shared memory the kernels of other GPUs run: products by warps.
TEST_P(FusedAttention, ProductsOfWarps) {
  if (!device_is_emulated()) GTEST_SKIP() << "the other tests run these kernels on GPUs before Hopper";
  const cuda::GpuModel before = cuda::gpu(0).model();
  cuda::GpuModel model = before;
  model.limits.shared = 48 << 10;
  cuda::gpu(0).set_model(model);
  const auto path = [](std::int64_t width) {
    View x{};
    x.dtype = GetParam(), x.shape = {1, 1, 9, width};
    return cuda::plan_attention(cuda::gpu(0), {}, x, x, x).text();
  };
  EXPECT_EQ(path(8), "fused by warps, 64 rows by 64 columns");
  EXPECT_EQ(path(136), "products over rows of scores");
  for (const bool causal : {false, true}) {
    compare({{1, 65, 8}, {1, 63, 8}, {1, 63, 8}, causal});
    compare({{1, 7, 8}, {1, 130, 8}, {1, 130, 8}, causal});
    compare({{1, 140, 8}, {1, 70, 8}, {1, 70, 8}, causal});
    compare({{2, 3, 131, 8}, {2, 3, 131, 8}, {2, 3, 131, 8}, causal});  // blocks of twice as many rows
    compare({{1, 20, 24}, {1, 33, 24}, {1, 33, 40}, causal});
    compare({{1, 4, 70, 8}, {1, 2, 140, 8}, {1, 2, 140, 8}, causal});
  }
  cuda::gpu(0).set_model(before);
}
TEST_P(FusedAttention, PlansAreLines) {
  const auto path = [](std::int64_t width, std::int64_t values) {
    return cuda::pipelined_attention_plan(width, values, GetParam()).text();
  };
  EXPECT_EQ(path(128, 128), "fused by warpgroups: values 128 by 128, dq 128 by 80, dk and dv 128 by 48");
  EXPECT_EQ(path(80, 256), "fused by warpgroups: values 128 by 80, dq 128 by 32, dk 128 by 32, dv 128 by 64");
}

TEST_P(FusedAttention, ManyBatches) {
  for (const bool causal : {false, true}) compare({{2, 3, 131, 8}, {2, 3, 131, 8}, {2, 3, 131, 8}, causal});
}

// Masks of a row, of all heads, of one head each, and rows that see nothing.
TEST_P(FusedAttention, Masks) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor q = cast(randn({2, 4, 70, 24}), GetParam()).eval(), k = cast(randn({2, 2, 140, 24}), GetParam()).eval(),
               v = cast(randn({2, 2, 140, 24}), GetParam()).eval(), g = cast(randn(q.shape()), GetParam()).eval();
  const Tensor rows = reshape(arange(70), {70, 1}), columns = arange(140);
  for (const Tensor& mask : {randn({140}), where(randn({2, 1, 70, 140}) > 0, 0.0, -kInf), randn({4, 70, 140}),
                             where(rows == 5, -kInf, where((columns < 70) == (rows < 40), 0.0, -kInf))}) {
    const Tensor same = mask.eval();
    for (const bool causal : {false, true}) {
      const auto on = [&](Device device, DType dtype) {
        const auto moved = [&](const Tensor& x, DType d) { return cast(x, d).to(device).eval(); };
        const Tensor x = variable(moved(q, dtype)), y = variable(moved(k, dtype)), z = variable(moved(v, dtype));
        const Tensor o = scaled_dot_product_attention(
            x, y, z, {.mask = moved(same, dtype == DType::f64 ? DType::f64 : DType::f32), .causal = causal});
        const Gradients all = backward(sum(o * moved(g, dtype)));
        return std::vector<Tensor>{o, all[x], all[y], all[z]};
      };
      expect_close(on({}, DType::f64), on(kGpu, GetParam()), GetParam());
    }
  }
}

// Documents shorter and longer than tiles, for several heads, next to the end of the row and alone in it.
TEST_P(FusedAttention, Documents) {
  const Tensor at = arange(330);
  for (const std::int64_t width : {24, 64, 136}) {
    const auto drawn = [&](std::int64_t heads) { return cast(randn({2, heads, 330, width}), GetParam()).eval(); };
    const Tensor q = drawn(2), k = drawn(1), v = drawn(1), g = drawn(2);
    const Tensor some = cast(at >= 1, DType::i64) + cast(at >= 64, DType::i64) + cast(at >= 70, DType::i64) +
                        cast(at >= 200, DType::i64) + cast(at >= 329, DType::i64);
    for (const Tensor& ids : {stack({some, cast(at >= 256, DType::i64)}), zeros({330}, DType::i64)}) {
      if (ids.rank() == 1 && width != 64) continue;
      const Tensor same = ids.eval();
      for (const bool causal : {false, true}) {
        const auto on = [&](Device device, DType dtype) {
          const auto moved = [&](const Tensor& x) { return cast(x, dtype).to(device).eval(); };
          const Tensor x = variable(moved(q)), y = variable(moved(k)), z = variable(moved(v));
          const Tensor o =
              scaled_dot_product_attention(x, y, z, {.causal = causal, .documents = same.to(device).eval()});
          const Gradients all = backward(sum(o * moved(g)));
          return std::vector<Tensor>{o, all[x], all[y], all[z]};
        };
        expect_close(on({}, DType::f64), on(kGpu, GetParam()), GetParam());
      }
    }
  }
}

// Heads of queries share those of keys and values, whose gradients are sums over them.
TEST_P(FusedAttention, GroupedQueries) {
  for (const std::int64_t width : {16, 64, 136}) {
    compare({{2, 4, 70, width}, {2, 2, 140, width}, {2, 2, 140, width}, true});
    compare({{1, 3, 140, width}, {1, 1, 70, width}, {1, 1, 70, width}});
  }
}

TEST_P(FusedAttention, Widths) {
  compare({{1, 20, 40}, {1, 33, 40}, {1, 33, 24}});
  compare({{1, 20, 24}, {1, 70, 24}, {1, 70, 64}, true});
  compare({{4, 20, 64}, {4, 70, 64}, {4, 70, 64}, true});
  compare({{1, 20, 128}, {1, 33, 128}, {1, 33, 128}, true});
}

// With scores in the thousands only a row's largest counts (its gradients are just rounding errors). A custom
// scale.
TEST_P(FusedAttention, LargeScores) {
  compare({{1, 66, 8}, {1, 70, 8}, {1, 70, 8}, true, 10});
  const Tensor q = cast(3000 * randn({1, 66, 8}), GetParam()).eval(), k = cast(randn({1, 70, 8}), GetParam()).eval();
  const auto wide = [](const Tensor& x) { return cast(x, DType::f64).eval(); };
  expect_close({scaled_dot_product_attention(wide(q), wide(k), wide(k))},
               {scaled_dot_product_attention(q.to(kGpu), k.to(kGpu), k.to(kGpu))}, GetParam());
  compare({{1, 66, 8}, {1, 70, 8}, {1, 70, 8}, false, 1, 0.01});
  compare({{1, 66, 8}, {1, 70, 8}, {1, 70, 8}, false, 1, -0.5});  // not by these kernels
}

// Queries of several heads share keys and values; heads come from one projection, and its gradient is whole again.
TEST_P(FusedAttention, SharedKeysAndHeadsOfAProjection) {
  compare({{2, 2, 3, 20, 8}, {2, 2, 1, 33, 8}, {2, 2, 1, 33, 8}, true});
  const Tensor x = cast(randn({2, 19, 3 * 4 * 8}), GetParam()).eval(),
               g = cast(randn({2, 19, 4 * 8}), GetParam()).eval();
  const auto on = [&](Device device, DType dtype) {
    const Tensor at = variable(cast(x, dtype).to(device).eval());
    std::vector<Tensor> parts = chunk(at, 3, 2);
    for (Tensor& part : parts) part = permute(reshape(part, {2, 19, 4, 8}), {0, 2, 1, 3});
    if (device == kGpu && device_is_emulated()) emulated_stream_calls();
    const Tensor o =
        reshape(permute(scaled_dot_product_attention(parts[0], parts[1], parts[2], {.causal = true}), {0, 2, 1, 3}),
                {2, 19, 4 * 8})
            .eval();
    if (device == kGpu && device_is_emulated()) {  // nothing is copied for it
      const std::vector<std::string> calls = emulated_stream_calls();
      EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const auto& c) { return c.starts_with("launch"); }), 1);
    }
    const Tensor gradient = backward(sum(o * cast(g, dtype).to(device)))[at];
    EXPECT_EQ(print_schedule({gradient}).find("cat"), std::string::npos) << print_schedule({gradient});
    return std::vector<Tensor>{o, gradient};
  };
  expect_close(on({}, DType::f64), on(kGpu, GetParam()), GetParam());
}

// Rows at any address, and columns before rows.
TEST_P(FusedAttention, AnyStrides) {
  const auto at = [&](const Tensor& x) {
    const Tensor odd = x.to(kGpu).eval();
    return std::vector<Tensor>{narrow(odd, -1, 1, 8), transpose(narrow(odd, -2, 0, 8), -1, -2)};
  };
  const Tensor x = cast(randn({2, 9, 9}), GetParam()).eval(), g = cast(randn({2, 9, 8}), GetParam()).eval();
  const std::vector<Tensor> there = at(x);
  const auto wide = [](const Tensor& y) { return cast(y.to(Device{}), DType::f64).eval(); };
  const Tensor &q = there[0], &k = there[1];
  expect_close(all_of(wide(q), wide(k), wide(q), wide(g), {}), all_of(q, k, q, g.to(kGpu), {}), GetParam());
}

// As on the CPU: rows of NaN and of infinite scores are NaN, a row that attends to nothing is 0 and so are its
// gradients.
TEST_P(FusedAttention, RowsThatAreNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Tensor q = ones({1, 5, 8}), k = ones({1, 70, 8});
  const Tensor row = reshape(arange(5), {1, 5, 1});
  q = where(row == 1, std::nan(""), where(row == 2, kInf, where(row == 3, -kInf, q)));
  const auto on = [&](Device device, DType dtype) {
    const auto moved = [&](const Tensor& x) { return cast(x, dtype).to(device).eval(); };
    return scaled_dot_product_attention(moved(q), moved(k), moved(randn(k.shape()))).to_vector<double>();
  };
  manual_seed(5);
  const std::vector<double> here = on({}, DType::f32);
  manual_seed(5);
  const std::vector<double> there = on(kGpu, GetParam());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(std::isnan(here[i]), std::isnan(there[i])) << i;
    if (i / 8 == 3) {
      EXPECT_EQ(there[i], 0) << i;
    }
  }
  // A row of zeros: its gradient is 0, and it adds nothing to the others'.
  const Tensor x = cast(where(row == 3, -kInf, ones({1, 5, 8})), GetParam()).to(kGpu).eval();
  const Tensor v = variable(cast(k, GetParam()).to(kGpu).eval());
  const Tensor o = scaled_dot_product_attention(x, cast(k, GetParam()).to(kGpu), v);
  for (const double d : backward(sum(cast(o, DType::f32)))[v].to_vector<double>()) EXPECT_NEAR(d, 4.0 / 70, 1e-3);
}

// The same bits every time, alone as in a batch, whatever number of rows a block takes.
TEST_P(FusedAttention, RowsDoNotDependOnTheirBatch) {
  const Tensor x = cast(randn({6, 131, 8}), GetParam()).to(kGpu).eval(),
               g = cast(randn({6, 131, 8}), GetParam()).to(kGpu).eval();
  const AttentionCase c{{}, {}, {}, true};
  const std::vector<Tensor> all = all_of(x, x, x, g, c), again = all_of(x, x, x, g, c);
  const auto one = [](const Tensor& y) { return narrow(y, 0, 4, 1).eval(); };
  const std::vector<Tensor> alone = all_of(one(x), one(x), one(x), one(g), c);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].to_vector<double>(), again[i].to_vector<double>());
    EXPECT_EQ(one(all[i]).to_vector<double>(), alone[i].to_vector<double>());
  }
}

// A gradient of a gradient goes through the plain formula; the first one is rounded in between.
TEST_P(FusedAttention, SecondGradients) {
  const Tensor x = cast(randn({1, 12, 8}), GetParam()).eval();
  const auto on = [&](Device device, DType dtype) {
    const std::function<Tensor(const Tensor&)> f = [](const Tensor& y) {
      return sum(square(scaled_dot_product_attention(y, y, y, {.causal = true})));
    };
    return std::vector<Tensor>{grad(std::function<Tensor(const Tensor&)>(
        [&](const Tensor& y) { return sum(square(grad(f)(y))); }))(cast(x, dtype).to(device).eval())};
  };
  expect_close(on({}, DType::f64), on(kGpu, GetParam()), GetParam(), 2);
}

INSTANTIATE_TEST_SUITE_P(Halves, FusedAttention, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace ebb::testing
