// SPDX-License-Identifier: MIT
// Library calls on cuda:0, a GPU where there is one, else the emulated device, against the CPU: values and gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/compile_for_gpu.h"
#include "cuda/kernel_store.h"
#include "cuda/library/kernels.h"
#include "cuda/library/product.h"
#include "cuda/library_on_gpu.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"
#include "expect_error.h"
#include "graph/node.h"

namespace ebb::testing {
namespace {

TEST_P(LibraryOnGpu, Convolutions) {
  struct Kind {
    std::int64_t groups;
    ConvOptions o;
  };
  ConvOptions plain, strided, dilated, grouped;
  strided.stride = {2, 3};
  strided.padding = {1, 2};
  dilated.dilation = {2, 1};
  dilated.padding = {2, 0};
  grouped.groups = 2;
  for (const auto& [groups, o] : {Kind{1, plain}, Kind{1, strided}, Kind{1, dilated}, Kind{2, grouped}}) {
    const Tensor x = real({3, 4, 9, 8}), w = real({6, 4 / groups, 3, 2}), bias = real({6});
    compare("conv2d", {x, w, bias}, [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2], o); });
    compare("conv2d without bias", {permute(real({3, 8, 9, 4}), {0, 3, 2, 1}).eval(), w},
            [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, o); });
  }
  compare("max_pool2d", {real({2, 3, 9, 8})}, [&](const std::vector<Tensor>& in) { return max_pool2d(in[0], 3); });
}

// By cuDNN, which proposes engines that may not be taken first; asymmetric paddings, windows that do not reach the last
// elements, and images in the order NHWC.
TEST_P(LibraryOnGpu, ConvolutionsByCudnn) {
  if (!device_is_emulated()) GTEST_SKIP() << "the emulated cuDNN counts what it was asked for";
  const struct Installed {
    Installed() { cuda::install_cudnn(&emulated_cudnn()); }
    ~Installed() { cuda::install_cudnn(nullptr); }
  } installed;
  ConvOptions plain, strided, dilated, grouped;
  strided.stride = {2, 3};
  strided.padding = {1, 2};
  dilated.dilation = {2, 1};
  dilated.padding = {2, 0};
  grouped.groups = 2;
  const int before = emulated_convolutions();
  for (const ConvOptions& o : {plain, strided, dilated, grouped}) {
    const Tensor w = real({6, 4 / o.groups, 3, 2}), bias = real({6});
    compare("conv2d", {real({3, 4, 9, 8}), w, bias},
            [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2], o); });
    compare("conv2d of NHWC", {permute(real({3, 9, 8, 4}), {0, 3, 1, 2}).eval(), w},
            [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, o); });
    compare("conv2d of a transposed view", {permute(real({3, 8, 9, 4}), {0, 3, 2, 1}).eval(), w},
            [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, o); });
    compare("conv2d of one image for all", {real({1, 4, 9, 8}), w}, [&](const std::vector<Tensor>& in) {
      return conv2d(broadcast_to(in[0], {3, 4, 9, 8}), in[1], {}, o);
    });
  }
  EXPECT_EQ(emulated_convolutions() - before, 4 * 4 * 3);
}

TEST_P(LibraryOnGpu, Lines) {
  const Tensor x = real({3, 37, 5}), few = cast(remainder(arange(3 * 37 * 5), 11), GetParam()).eval();
  for (const std::int64_t axis : {0, 1, 2}) {
    compare("cumsum", {x}, [&](const std::vector<Tensor>& in) { return cumsum(in[0], axis); });
    compare("cumprod", {x}, [&](const std::vector<Tensor>& in) { return cumprod(in[0], axis); });
    compare("argmax", {reshape(few, x.shape())}, [&](const std::vector<Tensor>& in) { return argmax(in[0], axis); });
    compare("argmin", {reshape(few, x.shape())}, [&](const std::vector<Tensor>& in) { return argmin(in[0], axis); });
  }
}

// Whole, and some rows of scores at a time: several batches, or some positions of one.
TEST_P(LibraryOnGpu, Attention) {
  use_emulated_device_without_gpu();
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

// Lines of one piece, of several, of one element more; side by side, backwards and neighbours of other lines'.
TEST_P(LibraryOnGpu, ScansOfLongLines) {
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
TEST_P(LibraryOnGpu, ScansDoNotDependOnOtherLines) {
  const Tensor x = real({5, 4103}).to(kGpu).eval();
  const std::vector<double> all = cumsum(x, 1).to_vector<double>(),
                            alone = cumsum(x.slice(0, 3, 4).eval(), 1).to_vector<double>();
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + 3 * 4103));
}

// The first of equals, wherever pieces begin; NaN before all.
TEST_P(LibraryOnGpu, BestOfLongLines) {
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

// Rows of all lengths and beginnings: copies take as many bytes at a time as both allow.
TEST_P(LibraryOnGpu, CopiesOfAllLengths) {
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

// A row that is added to all of a product's: in the product, which is then rounded once, and only where nobody reads
// the product without it.
TEST_P(LibraryOnGpu, ProductsAddARow) {
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

// Some small products are not cuBLASLt's: one of a column and a row has no bias there.
TEST_P(LibraryOnGpu, ProductsOfFewElementsAddARow) {
  std::string refused;
  for (const std::int64_t m : {1, 3}) {
    for (const std::int64_t n : {1, 2, 9}) {
      for (const std::int64_t k : {1, 2, 8}) {
        const Tensor x = real({m, k}), w = real({n, k}), rows = real({2, n});
        const long before = cuda::products_by_own_kernel();
        compare(fmt::format("[{}, {}]·[{}, {}]", m, k, k, n), {x, w, rows}, [](const std::vector<Tensor>& in) {
          return matmul(in[0], transpose(in[1], 0, 1)) + narrow(in[2], 0, 1, 1);
        });
        const bool own = cuda::products_by_own_kernel() > before;
        if (own) refused += fmt::format(" [{}, {}]·[{}, {}]", m, k, k, n);
        EXPECT_TRUE(!device_is_emulated() || own == (is_half(GetParam()) && k == 1)) << m << " " << n << " " << k;
      }
    }
  }
  if (!device_is_emulated() && !refused.empty()) std::printf("not supported by cuBLASLt:%s\n", refused.c_str());
}

// Halves in parts, both ways round, and with a length that does not divide into them.
TEST_P(LibraryOnGpu, ProductsOverManyElements) {
  for (const std::int64_t k : {16384, 16392}) {
    const Tensor a = real({3, k}), b = real({k, 5}), c = transpose(real({5, k}), 0, 1),
                 d = transpose(real({k, 3}), 0, 1);
    compare("matmul", {a, b}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
    compare("matmul, transposed", {d, c}, [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
  }
}

// Rows that do not begin at multiples of 16 bytes are copied to ones that do.
TEST_P(LibraryOnGpu, ProductsOfUnalignedRows) {
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

// Lines whose places repeat, in shared memory and not; an axis that is not the last; fewer lines than the result has.
TEST_P(LibraryOnGpu, SumsOfScatteredLines) {
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

// Which of its algorithms makes a large product is decided by timing: all of them make the same bits.
TEST_P(LibraryOnGpu, TimedProductsHaveTheBitsOfOthers) {
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

// Sizes that are no multiples of eight, in every order of factors, with and without a second product for the last rows
// or columns; a bias goes along. What cuBLASLt gets of halves has sizes in eights.
TEST_P(LibraryOnGpu, ProductsOfOddSizes) {
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

TEST_P(LibraryOnGpu, LinearCrossEntropy) {
  const Tensor x = real({11, 6}), head = real({13, 6}), bias = real({13}), weight = abs(real({13})).eval();
  Tensor target = randint(0, 13, {11}).eval();
  target = where(target == 4, -100, target).eval();
  for (const std::int64_t chunk : {0, 4}) {
    LinearCrossEntropyOptions o;
    o.chunk = chunk;
    compare("linear_cross_entropy", {x, head, target},
            [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2], o); });
    // Rows that bf16 takes eight neighbours at a time, in two rounds; the second is not full, nor are all its eights.
    for (const auto& [classes, round] :
         std::vector<std::pair<std::int64_t, bool>>{{2056, false}, {2056, true}, {2059, false}, {2059, true}}) {
      const Tensor wide = real({classes, 6}), of_classes = abs(real({classes})).eval();
      LinearCrossEntropyOptions rounded = o;
      rounded.round_logits = rounded.round_sums = round;
      compare("linear_cross_entropy of many classes", {x, wide, target},
              [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2], rounded); });
      rounded.z_loss = 1e-2;
      compare("linear_cross_entropy of many classes with weights", {x, wide, target},
              [&](const std::vector<Tensor>& in) {
                LinearCrossEntropyOptions with = rounded;
                with.weight = of_classes.to(in[0].device());
                return linear_cross_entropy(in[0], in[1], in[2], with);
              });
    }
    o.label_smoothing = 0.1;
    o.z_loss = 1e-2;
    o.softcap = 3;
    compare("linear_cross_entropy with everything", {x, head, target, bias}, [&](const std::vector<Tensor>& in) {
      LinearCrossEntropyOptions with = o;
      with.bias = in[3];
      with.weight = weight.to(in[0].device());
      return linear_cross_entropy(in[0], in[1], in[2], with);
    });
  }
}

// Several chunks, the last one shorter, with several parts each; numbers of rows, widths and classes that are no
// multiples of eight, and ones that are. Products of bf16 have sizes in eights all the same.
TEST_P(LibraryOnGpu, LinearCrossEntropyInPartsOfChunks) {
  use_emulated_device_without_gpu();
  cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::GpuModel before = gpu.model();
  cuda::GpuModel model = before;
  model.head_rows = 8;
  model.logit_gradient_bytes = 24 * 100;  // of a head without rows, 24 rows
  model.part_bytes = 8 * 4 * 32;
  gpu.set_model(model);
  for (const auto& [rows, width, classes] : {std::array<std::int64_t, 3>{69, 7, 27}, {70, 12, 32}, {64, 8, 25}}) {
    const std::string size = fmt::format(" of {} x {} x {}", rows, width, classes);
    const Tensor x = real({rows, width}), head = real({classes, width}), bias = real({classes});
    const Tensor target = where(remainder(arange(rows), 5) == 3, -100, remainder(arange(rows) * 7, classes)).eval();
    const long slow = emulated_slow_products();
    compare("linear_cross_entropy" + size, {x, head, target},
            [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2]); });
    for (const bool round : {false, true}) {
      compare("linear_cross_entropy with z_loss" + size, {x, head, target}, [&](const std::vector<Tensor>& in) {
        return linear_cross_entropy(in[0], in[1], in[2], {.z_loss = 1e-2, .round_logits = round, .round_sums = round});
      });
    }
    compare("linear_cross_entropy with everything" + size, {x, head, target, bias}, [&](const std::vector<Tensor>& in) {
      LinearCrossEntropyOptions o{.bias = in[3], .label_smoothing = 0.1, .z_loss = 1e-2, .softcap = 3};
      return linear_cross_entropy(in[0], in[1], in[2], o);
    });
    if (GetParam() == DType::bf16) {
      EXPECT_EQ(emulated_slow_products(), slow) << size;
    }
  }
  gpu.set_model(before);
}

// Formulas of logits in chunks, with a number of classes that a GPU pads.
TEST_P(LibraryOnGpu, LogProbabilitiesOfOddHeads) {
  const std::int64_t rows = 21, width = 8, classes = 267;
  const Tensor x = real({rows, width}), head = real({classes, width});
  const Tensor target = remainder(arange(rows) * 13, classes).eval();
  for (const std::int64_t chunk : {0, 8}) {
    compare(fmt::format("log-probabilities and entropy, chunk {}", chunk), {x, head, target},
            [&](const std::vector<Tensor>& in) {
              TokenStatisticsOptions o;
              o.entropy = true;
              o.chunk = chunk;
              const TokenStatistics s = linear_token_statistics(in[0], in[1], in[2], o);
              return s.log_probs + s.entropy;
            });
    compare(fmt::format("probabilities as targets, chunk {}", chunk), {x, head}, [&](const std::vector<Tensor>& in) {
      const Tensor p = softmax(cast(remainder(arange(rows * classes), 17), in[0].dtype()), 0);
      return linear_cross_entropy(in[0], in[1], reshape(p, {rows, classes}).to(in[0].device()), {.chunk = chunk});
    });
  }
}

// Rows of bf16 that one multiprocessor has on chip twice, once, once with registers, and not at all; some do not count.
TEST_P(LibraryOnGpu, LinearCrossEntropyOfLongRows) {
  const std::int64_t rows = 11;
  const Tensor x = real({rows, 4}), target = where(remainder(arange(rows), 4) == 2, -100, arange(rows) * 2600).eval();
  for (const std::int64_t classes : {28672, 28675, 49160, 57357, 106505, 131080}) {
    const Tensor head = real({classes, 4});
    for (const bool round : {false, true}) {
      compare("linear_cross_entropy of " + std::to_string(classes) + " classes", {x, head, target},
              [&](const std::vector<Tensor>& in) {
                return linear_cross_entropy(in[0], in[1], in[2], {.round_logits = round});
              });
    }
  }
}

// A chunk holds a row, less than a pair of answers, a pair, two pairs, which do not divide five, or everything: what
// the loss of a pair or an answer needs is there before its gradients are made.
TEST_P(LibraryOnGpu, LossesOfAnswersThroughAHead) {
  constexpr std::int64_t answers = 10, tokens = 3, classes = 736;  // large enough to be one call
  const Tensor x = real({answers, tokens, 6}), head = real({classes, 6}), bias = real({classes});
  const Tensor of_answers = real({answers}), old = cast(randn({answers, tokens}) * 0.3 - 6.5, GetParam()).eval();
  const Tensor at = arange(answers * tokens);
  const Tensor target =
      reshape(where(remainder(at, 7) == 4, -100, remainder(at * 11, classes)), {answers, tokens}).eval();
  for (const std::int64_t chunk : {0, 1, 4, 6, 13}) {
    const auto with = [&](const Tensor& b) {
      return LinearLogProbOptions{.bias = b, .temperature = 1.6, .chunk = chunk};
    };
    const std::string in_chunks = fmt::format(" in chunks of {}", chunk);
    compare("linear_dpo_loss" + in_chunks, {x, head, target, of_answers, bias}, [&](const std::vector<Tensor>& in) {
      return linear_dpo_loss(in[0], in[1], in[2], in[3], {.beta = 0.7, .reduction = Reduction::none}, with(in[4]));
    });
    compare("linear_kto_loss" + in_chunks, {x, head, target, of_answers, bias}, [&](const std::vector<Tensor>& in) {
      const Tensor good = (remainder(arange(answers), 3) == 1).to(in[0].device());
      return linear_kto_loss(in[0], in[1], in[2], in[3], good, {.beta = 0.3, .reduction = Reduction::none},
                             with(in[4]));
    });
    compare("linear_grpo_loss" + in_chunks, {x, head, target, of_answers, old}, [&](const std::vector<Tensor>& in) {
      return linear_grpo_loss(in[0], in[1], in[2], in[3], {.old = in[4], .by_token = true}, with({}));
    });
  }
}

// Lengths and labels are looked at on the device; what it says later are the words of the CPU.
TEST_P(LibraryOnGpu, AlignmentsNameWhatIsWrong) {
  const Tensor x = log_softmax(real({4, 2, 3}), 2).eval(), lattice = log_softmax(real({2, 4, 3, 3}), 3).eval();
  const Tensor labels = tensor({{1, 2}, {1, 2}}), steps = tensor({4, 4}), lengths = tensor({2, 2});
  const auto words = [](Device device, bool ctc, const std::vector<Tensor>& in) -> std::string {
    try {
      std::vector<Tensor> there;
      for (const Tensor& t : in) there.push_back(t.to(device));
      const Tensor loss =
          (ctc ? ctc_loss(there[0], there[1], there[2], there[3]) : rnnt_loss(there[0], there[1], there[2], there[3]))
              .eval();
      loss.to_vector();
      return "nothing";
    } catch (const Error& e) {
      return fmt::format("{}: {}", static_cast<int>(e.kind()), e.what());
    }
  };
  struct Case {
    Tensor labels, steps, lengths;
    const char* part;
  };
  const Case both[] = {{labels, tensor({4, 5}), lengths, "input_lengths[1] = 5 is outside"},
                       {labels, tensor({-1, 4}), lengths, "input_lengths[0] = -1 is outside"},
                       {labels, steps, tensor({2, 3}), "target_lengths[1] = 3 is outside [0, 2]"},
                       {tensor({{1, 2}, {3, 2}}), steps, lengths, "label 0 of sample 1 is 3, outside [0, 3)"},
                       {tensor({{1, 0}, {1, 2}}), steps, lengths, "label 1 of sample 0 is 0, the blank"}};
  const Case in_a_row[] = {{tensor({1, 2, 1}), steps, lengths, "add up to 4, but there are 3"},
                           {tensor({1, 2, 1}), steps, tensor({1, 1}), "add up to 2, but there are 3"}};
  const auto expect = [&](bool ctc, const Case& c) {
    const std::vector<Tensor> in{ctc ? x : lattice, c.labels, c.steps, c.lengths};
    EXPECT_EQ(words(kGpu, ctc, in), words({}, ctc, in));
    EXPECT_NE(words(kGpu, ctc, in).find(c.part), std::string::npos) << words(kGpu, ctc, in);
  };
  for (const Case& c : both) expect(true, c), expect(false, c);
  for (const Case& c : in_a_row) expect(true, c);
}

TEST_P(LibraryOnGpu, Alignments) {
  const Tensor x = cast(log_softmax(randn({9, 3, 5}), 2), GetParam()).eval();
  const Tensor labels = tensor({{1, 2, 2, 4}, {3, 1, 0, 0}, {4, 0, 0, 0}}).eval();
  const Tensor steps = tensor({9, 7, 4}).eval(), lengths = tensor({4, 2, 1}).eval();
  compare("ctc_loss", {x, labels, steps, lengths},
          [&](const std::vector<Tensor>& in) { return ctc_loss(in[0], in[1], in[2], in[3]); });
  const auto none = [](const std::vector<Tensor>& in) {
    return ctc_loss(in[0], in[1], in[2], in[3], {.reduction = Reduction::none});
  };
  // 32 labels are a stripe, eight steps are taken at a time: lengths around those, few classes and many of each, more
  // labels than steps, nothing at all, and a sample whose stripes are more than a block has warps.
  const std::vector<std::int64_t> sizes{31, 32, 33, 64, 0, 40, 0, 5, 259};
  const std::int64_t samples = 9, most = 259;
  std::vector<std::int64_t> in_a_row, in_rows;
  for (const std::int64_t size : sizes) {
    for (std::int64_t i = 0; i < most; ++i) {
      const std::int64_t label = (5 * i + i / 20) % 6 + 1;  // the same one twice, now and then
      in_rows.push_back(i < size ? label : 0);
      if (i < size) in_a_row.push_back(label);
    }
  }
  const Tensor far = cast(log_softmax(randn({290, samples, 7}), 2), GetParam()).eval();
  const Tensor counts = tensor({57, 64, 65, 290, 8, 39, 0, 7, 290}).eval(), row_lengths = from_data(sizes, {samples});
  compare("ctc_loss of many labels in a row",
          {far, from_data(in_a_row, {static_cast<std::int64_t>(in_a_row.size())}), counts, row_lengths}, none);
  compare("second derivatives of ctc_loss",
          {far.slice(0, 0, 70).slice(1, 0, 3).eval(), from_data(in_rows, {samples, most}).slice(0, 0, 3).eval(),
           tensor({57, 64, 65}), tensor({31, 32, 33})},
          [&](const std::vector<Tensor>& in) {
            return ctc_loss_backward(ones({3}, compute_dtype(GetParam())).to(in[0].device()), in[0], in[1], in[2],
                                     in[3], {.reduction = Reduction::none});
          });
  compare("ctc_loss of many labels", {far, from_data(in_rows, {samples, most}), counts, row_lengths}, none);
  const Tensor joint = cast(log_softmax(randn({3, 6, 5, 5}), 3), GetParam()).eval(), frames = tensor({6, 5, 3}).eval();
  compare("rnnt_loss", {joint, labels, frames, lengths},
          [&](const std::vector<Tensor>& in) { return rnnt_loss(in[0], in[1], in[2], in[3]); });
}

TEST_P(LibraryOnGpu, LossesByRow) {
  const Tensor x = real({6, 9}), target = randint(0, 9, {6}).eval();
  compare("sparsemax_loss", {x, target}, [&](const std::vector<Tensor>& in) { return sparsemax_loss(in[0], in[1]); });
  const Tensor lists = (randint(0, 9, {6, 9}) - cast(arange(9) > 3, DType::i64) * 10).eval();
  compare("multilabel_margin_loss", {x, where(lists < 0, -1, lists).eval()},
          [&](const std::vector<Tensor>& in) { return multilabel_margin_loss(in[0], in[1]); });
}

// The operations themselves, which take halves, too: with more rows than a block has threads, in batches, broadcast,
// transposed and empty.
TEST_P(LibraryOnGpu, Factorisations) {
  const DType dtype = GetParam();
  const auto same = [&](const std::string& what, const std::vector<Tensor>& inputs, const auto& f) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kGpu));
    expect_same(f(inputs), f(there), what);
  };
  const auto call = [&](Op op, const Attrs& attrs = {}) {
    return [=](const std::vector<Tensor>& in) {
      const Shape& a = in[0].shape();
      const Shape shape = in.size() > 1        ? in[1].shape()
                          : op == Op::cholesky ? a
                                               : a.without(a.rank() - 1).without(a.rank() - 2);
      return make_node(op, dtype, shape, in, attrs).eval();
    };
  };
  const bool whole = dtype == DType::f32;
  for (const std::int64_t n :
       whole ? std::vector<std::int64_t>{0, 1, 2, 31, 40, 270} : std::vector<std::int64_t>{1, 31}) {
    for (const std::int64_t count : {0, 1, 3}) {
      if (n * count > 300) continue;
      const std::string size = fmt::format(" of {} x {} x {}", count, n, n);
      const Tensor noise =
          randn({count, n, n}) + 3 * std::sqrt(static_cast<double>(n)) * flip(eye(n), {1});  // needs pivots
      const Tensor a = cast(noise, dtype).eval(), b = cast(randn({count, n, 37}), dtype).eval();
      const Tensor good =
          cast(matmul(noise, transpose(noise, 1, 2)) / static_cast<double>(n + 1) + eye(n), dtype).eval();
      same("cholesky" + size, {good}, call(Op::cholesky));
      same("solve" + size, {a, b}, call(Op::solve));
      same("solve, transposed" + size, {transpose(a, 1, 2), transpose(cast(randn({count, 5, n}), dtype).eval(), 1, 2)},
           call(Op::solve));
      same("solve, one matrix" + size, {expand(cast(noise.slice(0, 0, 1), dtype).eval(), {count, n, n}), b},
           call(Op::solve));
      if (n <= 40)
        same("det" + size, {cast(noise / std::sqrt(static_cast<double>(9 * n + 1)), dtype).eval()}, call(Op::det));
      same("logdet" + size, {good}, call(Op::logdet));
      for (int kind = 0; kind < (n <= 40 ? 8 : 1); ++kind) {
        Attrs attrs;
        attrs.i = {kind & 1, kind >> 1 & 1, kind >> 2 & 1, 0};
        const Tensor t = cast(randn({count, n, n}) / static_cast<double>(n + 1) + eye(n), dtype).eval();
        same(fmt::format("triangular_solve {}{}", kind, size), {t, b}, call(Op::triangular_solve, attrs));
      }
    }
  }
  same("det of a singular matrix", {cast(tensor({{1.0, 2.0}, {2.0, 4.0}}), dtype).eval()}, call(Op::det));
  same("logdet of matrices with determinants below 0 and of 0",
       {cast(tensor({{{0.0, 1.0}, {1.0, 0.0}}, {{1.0, 2.0}, {2.0, 4.0}}, {{-1.0, 0.0}, {0.0, -2.0}}}), dtype).eval()},
       call(Op::logdet));
}

// cuSOLVER for matrices of three rows and more, and up to 40 rows all at a time.
struct UsesCusolver {
  cuda::GpuModel before = cuda::gpu(0).model();
  UsesCusolver() {
    if (device_is_emulated()) cuda::install_cusolver(&emulated_cusolver(), &emulated_cublas());
    cuda::GpuModel model = before;
    model.few_rows = 2;
    model.solver_rows = model.decomposed_rows = 3;
    model.batched_rows = 40;
    cuda::gpu(0).set_model(model);
  }
  ~UsesCusolver() {
    if (device_is_emulated()) cuda::install_cusolver(nullptr, nullptr);
    cuda::gpu(0).set_model(before);
  }
};
std::string message_of(const std::function<Tensor()>& f) {
  try {
    (void)f().to_vector<double>();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The same by cuSOLVER, which large matrices go to; with the CPU's errors.
TEST_P(LibraryOnGpu, FactorisationsByCusolver) {
  const DType dtype = GetParam();
  const UsesCusolver uses;
  const auto call = [&](Op op) {
    return [=](const std::vector<Tensor>& in) {
      const Shape& a = in[0].shape();
      const Shape shape = in.size() > 1        ? in[1].shape()
                          : op == Op::cholesky ? a
                                               : a.without(a.rank() - 1).without(a.rank() - 2);
      return make_node(op, dtype, shape, in).eval();
    };
  };
  const auto same = [&](const std::string& what, const std::vector<Tensor>& inputs, Op op) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kGpu));
    expect_same(call(op)(inputs), call(op)(there), what);
  };
  const long before = emulated_solver_calls();
  for (const std::int64_t n : {3, 40, 70}) {
    for (const std::int64_t count : {1, 3}) {
      const std::string size = fmt::format(" of {} x {} x {}", count, n, n);
      const Tensor noise = randn({count, n, n}) + 3 * std::sqrt(static_cast<double>(n)) * flip(eye(n), {1});
      const Tensor a = cast(noise, dtype).eval(), b = cast(randn({count, n, 7}), dtype).eval();
      const Tensor good =
          cast(matmul(noise, transpose(noise, 1, 2)) / static_cast<double>(n + 1) + eye(n), dtype).eval();
      same("cholesky" + size, {good}, Op::cholesky);
      same("cholesky, transposed" + size, {transpose(good, 1, 2)}, Op::cholesky);
      same("solve" + size, {a, b}, Op::solve);
      same("solve, transposed" + size, {transpose(a, 1, 2), transpose(cast(randn({count, 5, n}), dtype).eval(), 1, 2)},
           Op::solve);
      same("solve, one matrix" + size, {expand(cast(noise.slice(0, 0, 1), dtype).eval(), {count, n, n}), b}, Op::solve);
      if (n <= 40) same("det" + size, {cast(noise / std::sqrt(static_cast<double>(9 * n + 1)), dtype).eval()}, Op::det);
      same("logdet" + size, {good}, Op::logdet);
    }
  }
  EXPECT_TRUE(!device_is_emulated() || emulated_solver_calls() > before);
  const Tensor minor = cast(tensor({{{4.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}},
                                    {{4.0, 0.0, 0.0}, {0.0, -1.0, 0.0}, {0.0, 0.0, 1.0}}}),
                            dtype)
                           .eval();
  const Tensor rank = cast(tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}}), dtype).eval();
  const Tensor right = cast(ones({3, 1}), dtype).eval();
  const Tensor nan = cast(minor * std::numeric_limits<double>::quiet_NaN(), dtype).eval();
  EXPECT_EQ(message_of([&] { return call(Op::cholesky)({minor.to(kGpu)}); }),
            message_of([&] { return call(Op::cholesky)({minor}); }));
  EXPECT_EQ(message_of([&] { return call(Op::cholesky)({nan.to(kGpu)}); }),
            "cholesky: matrix 0 is not positive definite (leading minor 1)");
  EXPECT_EQ(message_of([&] {
              return call(Op::solve)({rank.to(kGpu), right.to(kGpu)});
            }),
            message_of([&] {
              return call(Op::solve)({rank, right});
            }));
  same("det of a singular matrix", {rank}, Op::det);
}

// Results have signs that are the library's, so their products are looked at: one matrix, small ones at once, tall,
// wide.
TEST_P(LibraryOnGpu, DecompositionsByCusolver) {
  const DType dtype = GetParam();
  const UsesCusolver uses;
  const long before = emulated_solver_calls();
  const auto near = [&](const Tensor& found, const Tensor& wanted, const std::string& what) {
    expect_same(cast(wanted, dtype), cast(found.to({}), dtype), what);
  };
  const auto T = [](const Tensor& x) { return transpose(x, -2, -1); };
  for (const Shape& shape :
       {Shape{5, 5}, Shape{3, 7, 4}, Shape{2, 4, 7}, Shape{2, 2, 6, 6}, Shape{40, 35}, Shape{2, 40, 40}}) {
    const Tensor a = real(shape), there = a.to(kGpu);
    const std::string of = fmt::format(" of {}", fmt::join(shape.begin(), shape.end(), " x "));
    const std::int64_t k = std::min(shape[shape.rank() - 1], shape[shape.rank() - 2]);
    const auto [q, r] = qr(there);
    near(matmul(q, r), a, "Q·R" + of);
    near(matmul(T(q), q), expand(eye(k), matmul(T(q), q).shape()), "Qᵀ·Q" + of);
    near(tril(r, -1), zeros(r.shape()), "below R's diagonal" + of);
    const auto [u, s, vt] = svd(there);
    near(s, std::get<1>(svd(a)), "singular values" + of);
    near(matmul(u * unsqueeze(s, -2), vt), a, "U·S·Vᵀ" + of);
    near(matmul(T(u), u), expand(eye(k), matmul(T(u), u).shape()), "Uᵀ·U" + of);
    const auto slope = [&](const Tensor& x) {
      const Tensor v = variable(x);
      return backward(sum(std::get<1>(svd(v)) * (1 + arange(k))))[v];
    };
    near(slope(there), slope(a), "gradient of singular values" + of);
    if (shape[shape.rank() - 1] != shape[shape.rank() - 2]) continue;
    const Tensor symmetric = (a + T(a)).eval();
    const auto [w, v] = eigh(symmetric.to(kGpu));
    near(w, eigh(symmetric).first, "eigenvalues" + of);
    near(matmul(v * unsqueeze(w, -2), T(v)), symmetric, "V·W·Vᵀ" + of);
  }
  EXPECT_TRUE(!device_is_emulated() || emulated_solver_calls() > before);
  const Tensor bad = cast(where(eye(4, {}, DType::bool_), std::numeric_limits<double>::infinity(), 1.0), dtype).eval();
  const Tensor two = stack({cast(eye(4), dtype), bad}, 0).eval();
  EXPECT_EQ(message_of([&] { return eigh(two.to(kGpu)).first; }), message_of([&] { return eigh(two).first; }));
  EXPECT_EQ(message_of([&] { return std::get<1>(svd(two.to(kGpu))); }),
            message_of([&] { return std::get<1>(svd(two)); }));
  near(qr(two.to(kGpu)).second, qr(two).second, "R of infinities");
}

INSTANTIATE_TEST_SUITE_P(Of, LibraryOnGpu, ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

// After the others (suites with parameters run in the order of this file): every text that was asked for, in one
// program.
class LibraryTexts : public ::testing::TestWithParam<const char*> {};
TEST_P(LibraryTexts, CompileForGpus) {
  EBB_SKIP_WITHOUT_NVRTC();
  std::vector<cuda::KernelSource> sources;
  for (const KernelStore::Asked& asked : KernelStore::get().asked()) {
    const bool printed = asked.kernel == "sweep" || asked.kernel == "finish";  // see PrintedSweeps
    if (!printed && is_for(asked.source, GetParam())) sources.push_back(asked.source);
  }
  EXPECT_EQ(compile_error(joined(sources), GetParam()), "");
}
INSTANTIATE_TEST_SUITE_P(Of, LibraryTexts, ::testing::ValuesIn(kArchitectures),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace ebb::testing
