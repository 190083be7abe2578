// Fused attention of halves on cuda:0, a GPU where there is one, else the emulated device: values and gradients against
// f64 on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

constexpr Device kGpu{Device::Kind::cuda, 0};

struct Case {
  Shape q, k, v;
  bool causal = false;
  double spread = 1;  // of queries: how large scores become
  std::optional<double> scale = {};
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << fmt::format("q {}, k {}, v {}{}, spread {}", c.q, c.k, c.v, c.causal ? ", causal" : "", c.spread);
}

class FusedAttention : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(3);
  }
  // o, dq, dk, dv for a cotangent g.
  static std::vector<Tensor> all_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Case& c) {
    const Tensor x = variable(q), y = variable(k), z = variable(v);
    const Tensor o = scaled_dot_product_attention(x, y, z, {.causal = c.causal, .scale = c.scale});
    const Gradients all = backward(sum(o * g));
    return {o, all[x], all[y], all[z]};
  }
  // Relative to the largest element: each is a sum of many products of rounded weights.
  static void expect_close(const std::vector<Tensor>& expected, const std::vector<Tensor>& got, DType dtype) {
    static const char* const kNames[] = {"o", "dq", "dk", "dv"};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), dtype);
      const std::vector<double> a = expected[i].to_vector<double>(), b = got[i].to_vector<double>();
      ASSERT_EQ(a.size(), b.size());
      double largest = 0;
      for (const double x : a) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0);
      for (std::size_t e = 0; e < a.size(); ++e) {
        if (std::isnan(a[e]) && std::isnan(b[e])) continue;
        ASSERT_LE(std::fabs(a[e] - b[e]), (dtype == DType::bf16 ? 2e-2 : 2.5e-3) * largest + 1e-6)
            << kNames[i] << ", element " << e << ": " << b[e] << " instead of " << a[e];
      }
    }
  }
  void compare(const Case& c) const {
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

// Many batches: blocks of twice as many rows.
TEST_P(FusedAttention, ManyBatches) {
  for (const bool causal : {false, true}) compare({{2, 3, 131, 8}, {2, 3, 131, 8}, {2, 3, 131, 8}, causal});
}

TEST_P(FusedAttention, Widths) {
  compare({{1, 20, 40}, {1, 33, 40}, {1, 33, 24}});
  compare({{1, 20, 24}, {1, 70, 24}, {1, 70, 64}, true});
  compare({{4, 20, 64}, {4, 70, 64}, {4, 70, 64}, true});
  compare({{1, 20, 128}, {1, 33, 128}, {1, 33, 128}, true});
}

INSTANTIATE_TEST_SUITE_P(Halves, FusedAttention, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace ebb::testing
