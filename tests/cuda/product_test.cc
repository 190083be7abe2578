// SPDX-License-Identifier: MIT
// Products on the GPU: with a row added, over many elements, of any size and alignment.
#include <array>
#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/library/product.h"
#include "cuda/library_on_gpu.h"
#include "cuda/runtime/gpu.h"

namespace ebb::testing {
namespace {

class ProductsOnGpu : public LibraryOnGpu {};

// A row added to all of a product's rows: within the product, which is then rounded once, and only if the product is
// not read without it.
TEST_P(ProductsOnGpu, ProductsAddARow) {
  const bool half = is_half(GetParam());
  const auto calls = [](const Tensor& y) {
    const std::string text = print_schedule({y});
    std::size_t steps = 0;
    for (const char* const step : {"call ", "sweep "}) {
      for (std::size_t at = text.find(step); at != std::string::npos; at = text.find(step, at + 1)) ++steps;
    }
    return steps;
  };
  struct Layer {
    Shape x, w;
    std::int64_t first = 0;  // element of what the row is cut from
  };
  for (const Layer& z : {Layer{{5, 7}, {7, 9}}, Layer{{2, 3, 7}, {7, 16}, 1}, Layer{{1, 8}, {8, 1}},
                         Layer{{3, 0}, {0, 4}}, Layer{{70, 16384}, {16384, 3}, 2}}) {
    const std::int64_t n = z.w[1];
    const Tensor x = real(z.x), w = real(z.w), all = real({n + z.first});
    const auto layer = [&](const std::vector<Tensor>& in) {
      return matmul(in[0], in[1]) + narrow(in[2], 0, z.first, n);
    };
    compare(fmt::format("{} by {}", z.x, z.w), {x, w, all}, layer);
    const Tensor y = layer({x.to(kGpu), w.to(kGpu), all.to(kGpu)});
    EXPECT_EQ(calls(y), half ? 1u : 2u) << print_schedule({y});
    // Views of it, for calls and for sweeps, whatever shape the product has.
    if (x.numel() < 1000)
      compare(fmt::format("views of {} by {}", z.x, z.w), {x, w, all}, [&](const std::vector<Tensor>& in) {
        const Tensor y = layer(in), turned = transpose(y, -1, -2);
        const Tensor rows = reshape(y, {-1, n}), most = narrow(rows, 0, 0, rows.size(0) - 1);
        return mean(tanh(turned)) * mean(square(cat({rows, most}, 0)));
      });
    if (!half) continue;
    const auto wide = [](const Tensor& t) { return cast(t, DType::f64); };
    const Tensor exact = layer({wide(x), wide(w), wide(all)});
    const std::vector<double> got = y.to_vector<double>(), wanted = cast(exact, GetParam()).to_vector<double>(),
                              near = exact.to_vector<double>();
    const double unit = GetParam() == DType::f16 ? 0x1p-11 : 0x1p-8;  // f32 sums may round the other way
    for (std::size_t k = 0; k < got.size(); ++k)
      EXPECT_LE(std::fabs(got[k] - near[k]), std::fabs(wanted[k] - near[k]) * 1.01 +
                                                 5e-6 * std::sqrt(z.x[z.x.rank() - 1]) +
                                                 (device_is_emulated() ? 0 : 0.01 * unit * std::fabs(near[k])))
          << "element " << k;
  }
  const Tensor x = real({5, 7}).to(kGpu), w = real({7, 9}).to(kGpu), b = real({9}).to(kGpu),
               column = real({5, 1}).to(kGpu);
  const Tensor product = matmul(x, w);
  EXPECT_EQ(calls(product * (product + b)), 2u);  // read twice
  EXPECT_EQ(calls(product + column), 2u);
  EXPECT_EQ(calls(matmul(real({2, 5, 7}).to(kGpu), real({2, 7, 9}).to(kGpu)) + b), 2u);
  if (half) {
    EXPECT_EQ(calls(b + product), 1u);
    const Tensor with = product + b;
    eval({product, with});
    EXPECT_EQ(with.to_vector<double>(), (product.eval() + b).to_vector<double>());
  }
}

// Small matrices, and halves with few terms, as all gradients of these have, are not cuBLASLt's: a product of a column
// and a row has no bias there.
TEST_P(ProductsOnGpu, ProductsOfFewElementsAddARow) {
  for (const std::int64_t m : {1, 3}) {
    for (const std::int64_t n : {1, 2, 9}) {
      for (const std::int64_t k : {1, 2, 8}) {
        const Tensor x = real({m, k}), w = real({n, k}), rows = real({2, n});
        const long before = cuda::products_by_own_kernel();
        compare(fmt::format("[{}, {}]·[{}, {}]", m, k, k, n), {x, w, rows}, [](const std::vector<Tensor>& in) {
          return matmul(in[0], transpose(in[1], 0, 1)) + narrow(in[2], 0, 1, 1);
        });
        const bool own = cuda::products_by_own_kernel() > before;
        EXPECT_TRUE(own) << m << " " << n << " " << k;
      }
    }
  }
}

// In parts, both ways round, of lengths that no number divides, into a slice, and with a row that is added.
TEST_P(ProductsOnGpu, ProductsOverManyElements) {
  for (const std::int64_t k : {2048, 2100, 5003, 16384, 16392, 16401}) {
    const Tensor a = real({3, k}), b = real({k, 5}), c = transpose(real({5, k}), 0, 1),
                 d = transpose(real({k, 3}), 0, 1), row = real({5}), more = real({4, 5});
    compare("matmul", {a, b}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
    compare("matmul, transposed", {d, c}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
    compare("matmul and a row", {d, b, row},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]) + in[2]; });
    compare("matmul and more", {a, c, more},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]) + narrow(in[2], 0, 1, 3); });
  }
}
TEST_P(ProductsOnGpu, PartsOfASumAreAPlan) {
  const auto parts = [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batches = 1,
                        bool invariant = false) {
    cuda::Product p{};
    p.m = m, p.n = n, p.k = k, p.batches = batches, p.in = GetParam();
    const cuda::SumParts made = cuda::parts_of_sum({}, p, invariant);
    EXPECT_TRUE(made.count == 1 || ((made.count - 1) * made.each < k && made.count * made.each >= k)) << k;
    EXPECT_TRUE(made.count == 1 || made.each % 8 == 0) << k;
    return made.count;
  };
  if (is_half(GetParam())) {
    for (const std::int64_t m : {1, 64, 5000}) {
      EXPECT_EQ(parts(m, 1024, 16384), 4);
      EXPECT_EQ(parts(m, 256, 16385), 4);
      EXPECT_EQ(parts(m, 256, 100'003), 24);
      EXPECT_EQ(parts(m, 192, 12288), 3);
      EXPECT_EQ(parts(m, 256, 8191), 1);
      EXPECT_EQ(parts(m, 257, 12288), 1);
      EXPECT_EQ(parts(m, 1025, 16384), 1);
      EXPECT_EQ(parts(m, 1024, 16383), 1);
    }
    return;
  }
  EXPECT_EQ(parts(64, 64, 2047), 1);
  EXPECT_EQ(parts(64, 64, 2048), 4);
  EXPECT_EQ(parts(300, 200, 100'003), 51);
  EXPECT_EQ(parts(3, 5, 1'000'003), 128);
  EXPECT_EQ(parts(2048, 1500, 100'003), 1);
  EXPECT_EQ(parts(64, 64, 5003, 2), 1);
  EXPECT_EQ(parts(64, 64, 5003, 1, true), 1);
}

// Factors of f32 have fewer digits where that is asked for, and rows may depend on their batch.
TEST_P(ProductsOnGpu, Tf32WhereAskedFor) {
  struct Settings {
    ~Settings() { set_tf32(false), set_batch_invariant(false); }
  } const settings;
  const Tensor a = real({40, 300}), b = real({300, 48}), x = a.to(kGpu), y = b.to(kGpu);
  const auto wide = [](const Tensor& t) { return cast(t, DType::f64).eval(); };
  const Tensor exact = matmul(wide(a), wide(b)).eval();
  const auto error = [&] {
    const Tensor off = wide(matmul(x, y).to(Device{})) - exact;
    return std::sqrt((sum(square(off)) / sum(square(exact))).item<double>());
  };
  const double usual = error();
  EXPECT_FALSE(tf32());
  set_tf32(true);
  EXPECT_TRUE(tf32());
  if (GetParam() == DType::f32) {
    EXPECT_LT(usual, 1e-6);
    EXPECT_GT(error(), 1e-4);
    EXPECT_LT(error(), 1e-3);
  } else {
    EXPECT_EQ(error(), usual);
  }
  set_batch_invariant(true);
  EXPECT_FALSE(tf32());
  EXPECT_LE(error(), std::max(usual, 1e-6));
}
// Steps that are recorded because they repeat follow the settings, too.
TEST_P(ProductsOnGpu, SettingsReachRecordedProducts) {
  struct Settings {
    ~Settings() { set_tf32(false); }
  } const settings;
  const Tensor x = real({40, 64}).to(kGpu), w = (real({64, 64}) * 0.1).to(kGpu).eval();
  const auto values = [&] {
    std::vector<double> all;
    for (int again = 0; again < 8; ++again) {
      Tensor y = x;
      for (int layer = 0; layer < 4; ++layer) y = tanh(matmul(y, w));
      all = y.to_vector<double>();
    }
    return all;
  };
  const std::vector<double> exact = values();
  set_tf32(true);
  EXPECT_EQ(values() == exact, GetParam() != DType::f32);
  set_tf32(false);
  EXPECT_EQ(values(), exact);
}

// Rows that do not begin at multiples of 16 bytes are copied to aligned ones.
TEST_P(ProductsOnGpu, ProductsOfUnalignedRows) {
  for (const std::int64_t k : {256, 257}) {
    for (const std::int64_t n : {264, 259}) {
      const Tensor a = real({5, k}), b = real({k, n}), c = transpose(real({n, k}), 0, 1), row = real({n});
      const Tensor d = transpose(real({k, 5}), 0, 1);
      const std::string of = " of " + std::to_string(k) + " and " + std::to_string(n);
      compare("matmul" + of, {a, b}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
      compare("matmul, transposed" + of, {d, c}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
      compare("matmul and a row" + of, {a, c, row},
              [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]) + in[2]; });
    }
  }
}

// The algorithm of a large product is chosen by timing: all of them give the same bits.
TEST_P(ProductsOnGpu, TimedProductsHaveTheBitsOfOthers) {
  const std::int64_t scale = device_is_emulated() ? 1 : 64;
  struct Case {
    Shape a, b;
    bool turned = false;  // both factors
  };
  for (const Case& c : {Case{{64 * scale, 12 * scale}, {12 * scale, 48 * scale}},
                        Case{{64 * scale, 12 * scale}, {12 * scale, 48 * scale}, true},
                        Case{{3, 65 * scale, 8 * scale}, {3, 8 * scale, 24 * scale}},
                        Case{{64 * scale, 256 * scale}, {256 * scale, 12 * scale}, true}}) {
    const auto factor = [&](const Shape& s) {
      const int last = s.rank() - 1;
      if (!c.turned) return cast(randn(s), GetParam()).to(kGpu).eval();
      return transpose(cast(randn(s.with(last, s[last - 1]).with(last - 1, s[last])), GetParam()).to(kGpu).eval(), -1,
                       -2);
    };
    const Tensor a = factor(c.a), b = factor(c.b), row = cast(randn({c.b[c.b.rank() - 1]}), GetParam()).to(kGpu).eval();
    const auto bits = [&](double from) {
      const double before = cuda::tune_products_from(from);
      const std::vector<Tensor> made{matmul(a, b).eval(), (matmul(a, b) + row).eval()};
      const int expected = from == 0 && is_half(GetParam()) ? 1 : 0;
      EXPECT_TRUE(!device_is_emulated() || emulated_algorithm() == expected);
      cuda::tune_products_from(before);
      return std::pair(made[0].to_vector<double>(), made[1].to_vector<double>());
    };
    EXPECT_EQ(bits(0), bits(std::numeric_limits<double>::infinity()));
  }
}

// Sizes that are not multiples of eight, in every order of factors, with and without a second product for the last rows
// or columns; with and without a bias. Products of halves passed to cuBLASLt have sizes in eights.
TEST_P(ProductsOnGpu, ProductsOfOddSizes) {
  use_emulated_device_without_gpu();
  cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::GpuModel before = gpu.model();
  cuda::GpuModel model = before;
  model.worth_aligning = 8, model.worth_dividing = 32, model.last_part = 16;
  gpu.set_model(model);
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{5, 16, 37},
                                {8, 13, 40},
                                {1, 16, 35},
                                {37, 16, 16},
                                {43, 24, 33},
                                {43, 13, 8},
                                {9, 19, 21},
                                {16, 32, 16}}) {
    const Tensor rows = real({m, k}), columns = real({k, m}), right = real({k, n}), head = real({n, k});
    const Tensor bias = real({n});
    const long slow = emulated_slow_products();
    for (const bool across : {false, true}) {
      for (const bool of_head : {false, true}) {
        const auto product = [&](const std::vector<Tensor>& in) {
          return matmul(across ? transpose(in[0], 0, 1) : in[0], of_head ? transpose(in[1], 0, 1) : in[1]);
        };
        const std::string what = fmt::format("{} x {} x {}{}{}", m, k, n, across ? ", left factor by columns" : "",
                                             of_head ? ", right factor by columns" : "");
        const std::vector<Tensor> factors{across ? columns : rows, of_head ? head : right};
        compare("matmul " + what, factors, product);
        compare("matmul with bias " + what, {factors[0], factors[1], bias},
                [&](const std::vector<Tensor>& in) { return product(in) + in[2]; });
      }
    }
    if (device_is_emulated() && m >= 8) {  // gradients sum over fewer rows than is worth a copy
      EXPECT_EQ(emulated_slow_products(), slow) << fmt::format("{} x {} x {}", m, k, n);
    }
  }
  gpu.set_model(before);
}

// Halves with few terms, or with long sums for few columns, small matrices of floats, and f32 with long sums for few
// rows have kernels of their own: cuBLASLt sees none of them.
TEST_P(ProductsOnGpu, ThinProducts) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 3, 37},
                                {9, 1, 40},
                                {5, 7, 3},
                                {1, 300, 3},
                                {5, 4099, 5},
                                {70, 257, 2},
                                {3, 2048, 7},
                                {3, 300, 129},
                                {7, 1031, 130},
                                {16, 16, 16},
                                {1, 5, 1}}) {
    const std::string what = fmt::format("{} x {} x {}", m, k, n);
    const Tensor a = real({m, k}), b = real({k, n}), c = real({n, k}), row = real({n});
    compare("matmul " + what, {a, b}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
    compare("matmul, transposed " + what, {a, c},
            [](const std::vector<Tensor>& in) { return matmul(in[0], transpose(in[1], 0, 1)); });
    compare("matmul and a row " + what, {a, b, row},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]) + in[2]; });
    compare("matmul of batches " + what, {real({3, m, k}), real({3, k, n})},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
  }
  const auto own_products = [&](std::int64_t m, std::int64_t k, std::int64_t n, bool add) {
    const Tensor a = real({m, k}).to(kGpu), b = real({k, n}).to(kGpu), c = real({m, n}).to(kGpu);
    const long before = cuda::products_by_own_kernel();
    (add ? c + matmul(a, b) : matmul(a, b)).eval();
    return cuda::products_by_own_kernel() - before;
  };
  EXPECT_EQ(own_products(16, 16, 16, false), is_half(GetParam()) ? 0 : 1);
  EXPECT_EQ(own_products(17, 16, 16, false), 0);
  EXPECT_EQ(own_products(3, 300, 129, false), GetParam() == DType::f32 ? 1 : 0);
  EXPECT_EQ(own_products(3, 300, 127, false), 0);
  EXPECT_EQ(own_products(8, 300, 129, true), 0);
  if (!is_half(GetParam())) return;
  // Rows do not depend on their number.
  for (const std::int64_t k : {5, 3001}) {
    const Tensor a = real({11, k}).to(kGpu).eval(), b = real({k, 3}).to(kGpu).eval();
    const long slow = emulated_slow_products();
    const std::vector<double> all = matmul(a, b).to_vector<double>();
    const long own = cuda::products_by_own_kernel();
    for (const std::int64_t row : {0, 7}) {
      const std::vector<double> one = matmul(a.slice(0, row, row + 1).eval(), b).to_vector<double>();
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + row * 3)) << k;
    }
    EXPECT_EQ(emulated_slow_products(), slow) << k;
    EXPECT_EQ(cuda::products_by_own_kernel(), own + 2) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ProductsOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
