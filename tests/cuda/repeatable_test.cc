// SPDX-License-Identifier: MIT
// On cuda:0, a GPU if there is one, else the emulated device: the same bits every time, and the same bits of a row
// alone and in a batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "cuda/emulated_device.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

class Repeatable : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(23);
  }
  void TearDown() override { set_batch_invariant(false); }
  static Tensor real(const Shape& shape, DType dtype = DType::f32) { return cast(randn(shape), dtype).to(kGpu).eval(); }
  // Bits of f64 represent those of every other floating type; NaNs of equal bits are equal here.
  static std::vector<std::uint64_t> bits(const std::vector<Tensor>& all) {
    std::vector<std::uint64_t> result;
    for (const Tensor& x : all) {
      for (const double v : x.to_vector<double>()) result.push_back(std::bit_cast<std::uint64_t>(v));
    }
    return result;
  }
};

// Each warp of a block has some of a group's rows, and the last group has fewer: the sums over rows are those of a
// sweep without rows, and those of numbers that need their row first.
TEST_F(Repeatable, SumsOverRowsAreTheSameBesideRows) {
  const std::int64_t rows = 8405, columns = 1000;
  for (const DType d : {DType::f32, DType::f64}) {
    const Tensor x = real({rows, columns}, d);
    const Tensor y = x + 0 * max(x, 1, true), beside = sum(y, 0), least = min(y, 0);
    eval({y, beside, least});
    EXPECT_EQ(bits({beside}), bits({sum(x, 0)})) << name(d);
    EXPECT_EQ(bits({least}), bits({min(x, 0)})) << name(d);
    EXPECT_EQ(bits({y}), bits({x})) << name(d);
  }
}

TEST_F(Repeatable, TenRunsHaveTheSameBits) {
  const bool small = device_is_emulated();
  const std::int64_t rows = small ? 37 : 1000, classes = small ? 70 : 5003, width = small ? 24 : 264;
  struct Kind {
    std::string name;
    std::function<std::vector<Tensor>()> run;
  };
  std::vector<Kind> kinds;
  for (const DType d : small ? std::vector{DType::bf16} : std::vector{DType::f32, DType::bf16, DType::f16}) {
    const auto add = [&](const std::string& what, std::vector<Tensor> inputs, auto loss) {
      kinds.push_back({what + " of " + std::string(name(d)), [inputs, loss] {
                         std::vector<Tensor> leaves;
                         for (const Tensor& x : inputs) leaves.push_back(is_floating(x.dtype()) ? variable(x) : x);
                         const Tensor value = loss(leaves);
                         std::vector<Tensor> all{value};
                         const Gradients g = backward(value);
                         for (const Tensor& x : leaves) {
                           if (x.requires_grad()) all.push_back(g[x]);
                         }
                         return all;
                       }});
    };
    const Tensor x = real({rows, classes}, d), y = real({rows, classes}, d), h = real({rows, width}, d);
    const Tensor head = real({classes, width}, d), labels = randint(0, classes, {rows}).to(kGpu).eval();
    const auto scalar = [](const Tensor& t) { return mean(square(cast(t, DType::f32))); };
    add("mse_loss", {x, y}, [](const std::vector<Tensor>& in) { return mse_loss(in[0], in[1]); });
    add("cross_entropy", {x, labels}, [](const std::vector<Tensor>& in) { return cross_entropy(in[0], in[1]); });
    add("linear_cross_entropy", {h, head, labels}, [rows](const std::vector<Tensor>& in) {
      LinearCrossEntropyOptions o;
      o.chunk = rows / 3;
      return linear_cross_entropy(in[0], in[1], in[2], o);
    });
    add("matmul", {h, head},
        [=](const std::vector<Tensor>& in) { return scalar(matmul(in[0], transpose(in[1], 0, 1))); });
    add("layer_norm", {h, real({width}, d), real({width}, d)},
        [=](const std::vector<Tensor>& in) { return scalar(layer_norm(in[0], {width}, in[1], in[2])); });
    // Many rows of the gradient come from one index.
    const Tensor index = randint(0, 5, {rows}).to(kGpu).eval();
    add("embedding", {h, index},
        [=](const std::vector<Tensor>& in) { return scalar(embedding(in[0], in[1]) * (1 + arange(width))); });
    const std::int64_t side = small ? 7 : 33;
    add("conv2d", {real({5, 6, side, side}, d), real({8, 6, 3, 3}, d), real({8}, d)},
        [=](const std::vector<Tensor>& in) { return scalar(conv2d(in[0], in[1], in[2])); });
    const std::int64_t steps = small ? 19 : 333;
    const Shape heads{2, 3, steps, 16};
    add("attention", {real(heads, d), real(heads, d), real(heads, d)}, [=](const std::vector<Tensor>& in) {
      AttentionOptions o;
      o.causal = true;
      return scalar(scaled_dot_product_attention(in[0], in[1], in[2], o));
    });
    const Tensor paths = cast(log_softmax(randn({steps, 4, 11}), 2), d).to(kGpu).eval();
    const Tensor words = randint(1, 11, {4, 6}).to(kGpu).eval();
    add("ctc_loss", {paths, words, full({4}, steps).to(kGpu).eval(), full({4}, 6).to(kGpu).eval()},
        [](const std::vector<Tensor>& in) { return ctc_loss(in[0], in[1], in[2], in[3]); });
  }
  for (const Kind& kind : kinds) {
    const std::vector<std::uint64_t> first = bits(kind.run());
    for (int turn = 1; turn < (small ? 3 : 10); ++turn) ASSERT_EQ(bits(kind.run()), first) << kind.name;
  }
}

// Rows that do not fit on chip, and one that does: blocks loop over several and load the next while they compute one. A
// row has the bits that it has alone.
TEST_F(Repeatable, LongRowsAreTheSameAloneAndInTurn) {
  const std::int64_t rows = device_is_emulated() ? 11 : 1500;
  for (const std::int64_t columns : {50304, 128256}) {
    const Tensor x = real({rows, columns}, DType::bf16), labels = randint(0, columns, {rows}).to(kGpu).eval();
    const auto run = [&](std::int64_t first, std::int64_t count) {
      const Tensor part = variable(x.slice(0, first, first + count).eval());
      CrossEntropyOptions o;
      o.reduction = Reduction::none;
      const Tensor losses = cross_entropy(part, labels.slice(0, first, first + count).eval(), o);
      return std::vector<Tensor>{losses, backward(sum(cast(losses, DType::f32)))[part]};
    };
    const std::vector<Tensor> all = run(0, rows), again = run(0, rows);
    for (const std::int64_t r : {std::int64_t{0}, rows / 3, rows / 2, rows - 2, rows - 1}) {
      const std::vector<Tensor> alone = run(r, 1);
      for (std::size_t k = 0; k < all.size(); ++k) {
        EXPECT_EQ(bits({all[k].slice(0, r, r + 1)}), bits({alone[k]})) << columns << " columns, row " << r;
        EXPECT_EQ(bits({all[k].slice(0, r, r + 1)}), bits({again[k].slice(0, r, r + 1)}))
            << columns << ", again, row " << r;
      }
    }
  }
}

// M rows alone against the first M rows of all: over the shapes of GPT-2 and of Llama on a GPU. With a bias, the
// product of halves adds it.
void compare_rows(DType dtype, bool bias = false) {
  struct Layer {
    std::int64_t k, n;
  };
  const bool small = device_is_emulated();
  const std::vector<Layer> layers =
      small ? std::vector<Layer>{{24, 40}, {70, 9}}
            : std::vector<Layer>{{768, 2304},  {768, 768},   {768, 3072},   {3072, 768},   {768, 50304}, {768, 50257},
                                 {4096, 4096}, {4096, 6144}, {4096, 14336}, {14336, 4096}, {64, 1024},   {1024, 64}};
  const std::int64_t most = small ? 70 : 16384;
  for (const auto& [k, n] : layers) {
    const Tensor x = cast(randn({most, k}), dtype).to(kGpu).eval();
    for (const bool by_rows : {true, false}) {
      const Tensor w = by_rows ? cast(randn({k, n}), dtype).to(kGpu).eval()
                               : transpose(cast(randn({n, k}), dtype).to(kGpu).eval(), 0, 1);
      const Tensor row = cast(randn({n}), dtype).to(kGpu).eval();
      const auto layer = [&](const Tensor& rows) { return bias ? matmul(rows, w) + row : matmul(rows, w); };
      const Tensor whole = layer(x).eval();
      for (std::int64_t m :
           {1, 2, 3, 7, 8, 16, 17, 33, 64, 100, 128, 250, 512, 1000, 1024, 2048, 4096, 5000, 8192, 16383}) {
        if (m >= most) break;
        const Tensor part = layer(x.slice(0, 0, m));
        const Tensor differ = sum(cast(part != whole.slice(0, 0, m), DType::i64));
        EXPECT_EQ(differ.item<std::int64_t>(), 0)
            << "elements of [" << m << ", " << k << "]·[" << k << ", " << n << "]" << (by_rows ? "" : ", transposed,")
            << " of " << name(dtype) << " differ from the same rows among " << most;
      }
    }
  }
}
TEST_F(Repeatable, RowsOfProductsOfBf16DoNotDependOnTheirBatch) { compare_rows(DType::bf16); }
TEST_F(Repeatable, RowsOfProductsOfF16DoNotDependOnTheirBatch) { compare_rows(DType::f16); }
TEST_F(Repeatable, RowsOfLayersOfBf16DoNotDependOnTheirBatch) { compare_rows(DType::bf16, true); }
TEST_F(Repeatable, RowsOfLayersOfF16DoNotDependOnTheirBatch) { compare_rows(DType::f16, true); }
TEST_F(Repeatable, RowsOfProductsOfF32DoNotDependOnTheirBatchWhenAskedFor) {
  set_batch_invariant(true);
  compare_rows(DType::f32);
  // They are correct, in every layout, with batches and with a summand.
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-13;
    for (const std::int64_t n : {1, 17, 33, 130}) {
      const Tensor a = cast(randn({3, 40, 19}), dtype).eval(), b = cast(randn({3, n, 19}), dtype).eval();
      const Tensor want = matmul(a, transpose(b, 1, 2));
      const Tensor got = matmul(a.to(kGpu), transpose(b.to(kGpu), 1, 2)).to(Device{});
      const Tensor turned =
          matmul(transpose(transpose(a, 1, 2).eval().to(kGpu), 1, 2), transpose(b, 1, 2).eval().to(kGpu)).to(Device{});
      EXPECT_LT(max(abs(got - want)).item<double>(), tolerance * 19);
      EXPECT_EQ(bits({got}), bits({turned}));
    }
  }
}

// Every number of f16 and of bf16, by each function that has a fast path where all results of a sweep are halves:
// within a unit in the last place of the half, NaN and infinities in the right places. Exponentials below 2^-126 are 0
// there: values computed from them may be off by that much, times the argument where it is a factor (silu).
TEST_F(Repeatable, FunctionsOfAllHalvesAreRight) {
  struct Function {
    const char* name;
    std::function<Tensor(const Tensor&)> of;
  };
  const std::vector<Function> functions{
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"exp2", [](const Tensor& x) { return exp2(x); }},
      {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"log", [](const Tensor& x) { return log(x); }},
      {"log2", [](const Tensor& x) { return log2(x); }},
      {"log1p", [](const Tensor& x) { return log1p(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }},
      {"rsqrt", [](const Tensor& x) { return rsqrt(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"1 / x", [](const Tensor& x) { return 1 / x; }},
      {"|x|^1.5", [](const Tensor& x) { return pow(abs(x), 1.5); }},
      {"|x|^-0.25", [](const Tensor& x) { return pow(abs(x), -0.25); }},
      {"x / 3", [](const Tensor& x) { return x / 3; }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"erfc", [](const Tensor& x) { return erfc(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"sinh", [](const Tensor& x) { return sinh(x); }},
      {"cosh", [](const Tensor& x) { return cosh(x); }},
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::vector<float> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      all[i] = dtype == DType::bf16 ? to_float(BFloat16{bits}) : to_float(Half{bits});
    }
    const Tensor x = cast(from_data(all, {65536}), dtype).eval();
    const int digits = dtype == DType::bf16 ? 8 : 11, lowest = dtype == DType::bf16 ? -126 : -14;
    const double largest = dtype == DType::bf16 ? 0x1.fep127 : 65504;
    const auto unit = [&](double v) {
      return std::ldexp(1, std::max(v == 0 ? lowest : std::ilogb(v), lowest) - digits + 1);
    };
    const Tensor exact = cast(x, DType::f64);
    const std::vector<double> given = exact.to_vector<double>();
    std::vector<Tensor> results;
    for (const auto& [name_of, f] : functions) results.push_back(f(x.to(kGpu)));
    eval(results);  // in one sweep
    for (std::size_t k = 0; k < functions.size(); ++k) {
      const auto& [name_of, f] = functions[k];
      const std::vector<double> got = results[k].to_vector<double>(), want = f(exact).to_vector<double>(),
                                rounded = cast(f(exact), dtype).to_vector<double>();
      int wrong = 0;
      for (std::size_t i = 0; i < got.size() && wrong < 5; ++i) {
        if (got[i] == rounded[i] || (std::isnan(got[i]) && std::isnan(rounded[i]))) continue;
        const double room = std::max(unit(rounded[i]), 0x1p-126 * std::max(1.0, std::fabs(given[i])));
        if (std::isfinite(rounded[i]) && std::fabs(got[i] - want[i]) <= room) continue;
        if (std::isinf(rounded[i]) && got[i] * rounded[i] > 0 && std::fabs(got[i]) >= largest) continue;
        ++wrong;
        ADD_FAILURE() << name_of << " of " << name(dtype) << " " << given[i] << " is " << got[i] << ", not " << want[i];
      }
    }
  }
}

// The parts of digamma cancel at its roots. Of all floats, -66.7959061 is the closest to one: rounded once, as by the
// CPU.
TEST_F(Repeatable, DigammaIsRightBesideItsRoots) {
  std::vector<float> low, high;  // the floats around a root, by bisection
  for (int pole = -127; pole < 0; ++pole) {
    low.push_back(std::nextafter(static_cast<float>(pole), 0.0f));
    high.push_back(std::nextafter(static_cast<float>(pole + 1), low.back()));
  }
  low.push_back(1), high.push_back(2);
  const auto count = static_cast<std::int64_t>(low.size());
  for (int step = 0; step < 24; ++step) {
    std::vector<float> middle(low.size());
    for (std::size_t i = 0; i < low.size(); ++i) middle[i] = low[i] + (high[i] - low[i]) / 2;
    const std::vector<float> at = digamma(from_data(middle, {count})).to_vector<float>();
    for (std::size_t i = 0; i < low.size(); ++i) (at[i] < 0 ? low : high)[i] = middle[i];
  }
  low.insert(low.end(), high.begin(), high.end());
  EXPECT_NE(std::find(low.begin(), low.end(), -66.7959061f), low.end());
  const Tensor x = from_data(low, {2 * count});
  const std::vector<float> got = digamma(x.to(kGpu)).to_vector<float>(), want = digamma(x).to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << low[i];
}

// Positive numbers have formulas of their own: below 1, up to 2, 3 and 4, and beyond; derivatives up to the third.
TEST_F(Repeatable, DigammaAndItsDerivativesAreRoundedOnce) {
  std::vector<float> at{1e-38f, 1e-30f, 1e-29f, 0.5f, 1, 2, 3, 4, 5, 6, 7, 8, 1e20f, 3e38f, 0, -1, -0.5f, 1e-42f};
  for (int i = 0; i < 2000; ++i) at.push_back(std::exp2(0.03f * static_cast<float>(i) - 30));
  for (int i = 1; i < 4000; ++i) at.push_back(0.0025f * static_cast<float>(i));
  const Tensor x = from_data(at, {static_cast<std::int64_t>(at.size())}), wide = cast(x, DType::f64);
  for (int n = 0; n <= 4; ++n) {
    const auto of = [&](const Tensor& t) { return n == 0 ? digamma(t) : polygamma(n, t); };
    const std::vector<float> got = of(x.to(kGpu)).to_vector<float>();
    const std::vector<double> want = of(wide).to_vector<double>();
    for (std::size_t i = 0; i < at.size(); ++i) {
      const float nearest = static_cast<float>(want[i]);
      if (got[i] == nearest || (std::isnan(got[i]) && std::isnan(nearest))) continue;
      const double unit = std::fabs(static_cast<double>(std::nextafter(nearest, INFINITY)) - nearest);
      EXPECT_LE(std::fabs(got[i] - want[i]), 0.6 * unit) << "derivative " << n << " at " << at[i];
    }
  }
}

}  // namespace
}  // namespace ebb::testing
