// SPDX-License-Identifier: MIT
// Networks of convolutions on cuda:0 with channels-last images, against the CPU, where they are not.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "cuda/emulated_device.h"
#include "cuda/library/cudnn.h"
#include "ebb/ebb.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

class ChannelsLast : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    if (device_is_emulated()) cuda::install_cudnn(&emulated_cudnn());
    if (!cuda::cudnn_table()) GTEST_SKIP() << "cuDNN is not there";
    manual_seed(23);
  }
  void TearDown() override {
    if (device_is_emulated()) cuda::install_cudnn(nullptr);
  }
  Tensor real(const Shape& shape, double size = 1) const { return cast(size * randn(shape), GetParam()).eval(); }

  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  // The values of f and the gradients of a weighted sum of the first: all of them evaluated together, as in training.
  static std::vector<Tensor> with_gradients(const std::vector<Tensor>& inputs, const Function& f, Device device) {
    std::vector<Tensor> moved;
    for (const Tensor& x : inputs) moved.push_back(variable(x.to(device)));
    std::vector<Tensor> all = f(moved);
    const Tensor weights = reshape(1 + 0.25 * cast(remainder(arange(all[0].numel()), 7), DType::f32), all[0].shape());
    const Gradients g = backward(sum(cast(all[0], DType::f32) * weights));
    for (const Tensor& x : moved) all.push_back(g[x]);
    eval(all);
    return all;
  }
  void compare(const std::vector<Tensor>& inputs, const Function& f) const {
    const std::vector<Tensor> here = with_gradients(inputs, f, {}), there = with_gradients(inputs, f, kGpu);
    ASSERT_EQ(here.size(), there.size());
    for (std::size_t k = 0; k < here.size(); ++k) {
      ASSERT_EQ(here[k].shape(), there[k].shape());
      const std::vector<double> a = here[k].to_vector<double>(), b = there[k].to_vector<double>();
      double largest = 0;
      for (const double x : a) largest = std::max(largest, std::fabs(x));
      // Halves are rounded after every layer, whatever the order of the sums in between.
      const double most = (GetParam() == DType::f32 ? 1e-4 : GetParam() == DType::f16 ? 2e-2 : 0.1) * (1e-3 + largest);
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_LE(std::fabs(a[i] - b[i]), most)
            << "output " << k << ", element " << i << ": " << b[i] << ", not " << a[i];
    }
  }
};

// The texts of a schedule's sweeps, and how often one loads or stores an image of so many elements.
std::vector<std::string> sweeps_of(const std::vector<Tensor>& roots) {
  const std::string text = print_schedule(roots);
  std::vector<std::string> sweeps;
  for (std::size_t at = text.find("sweep ["); at != std::string::npos;) {
    const std::size_t next = text.find("sweep [", at + 1);
    sweeps.push_back(text.substr(at, next - at));
    at = next;
  }
  return sweeps;
}
std::size_t images_in(const std::string& sweep, const std::string& what, DType dtype, int elements) {
  std::size_t count = 0;
  const std::string image = std::string(name(dtype)) + " [" + std::to_string(elements) + ", ";
  for (std::size_t at = 0; (at = sweep.find(what, at)) != std::string::npos; ++at)
    count += sweep.compare(sweep.find(' ', at + what.size()) + 1, image.size(), image) == 0;
  return count;
}

Tensor normalized(const Tensor& x, const Tensor& w, const Tensor& b) {
  return batch_norm(x, {}, {}, w, b, {.training = true}).y;
}

// Two convolutions with norms and a shortcut around them, then pools: the parts of a residual network.
std::vector<Tensor> residual(const std::vector<Tensor>& in) {
  const Tensor h = relu(normalized(conv2d(in[0], in[1], {}, {.padding = 1}), in[2], in[3]));
  const Tensor y = relu(conv2d(h, in[4], in[5]) + h);
  return {flatten(global_avg_pool(max_pool2d(y, 2)), 1), y};
}

TEST_P(ChannelsLast, ResidualBlocks) {
  for (const Shape& images : {Shape{2, 3, 5, 6}, Shape{3, 1, 4, 4}, Shape{2, 16, 2, 2}}) {
    SCOPED_TRACE(images[1]);
    const std::int64_t c = images[1];
    compare({real(images), real({4, c, 3, 3}, 0.3), real({4}), real({4}), real({4, 4, 1, 1}, 0.5), real({4})},
            residual);
  }
}

// Pictures of three channels, which tensor cores pad to eight: values and both gradients, with and without a bias, with
// pixels apart, and with a picture that is the result of a transposed convolution.
TEST_P(ChannelsLast, FewChannelsArePadded) {
  const int before = emulated_unaligned_convolutions();
  for (const std::int64_t channels : {1, 3, 11}) {
    SCOPED_TRACE(channels);
    const Tensor images = real({2, channels, 7, 6}), w = real({8, channels, 3, 3}, 0.3), bias = real({8});
    compare({images, w, bias}, [](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 1})};
    });
    compare({real({4, channels, 7, 9}), w}, [](const std::vector<Tensor>& in) {
      const Tensor every_other = transpose(index_select(in[0], 0, arange(0, 4, 2).to(in[0].device())), 2, 3);
      return std::vector<Tensor>{conv2d(every_other, in[1], {}, {.dilation = 2})};
    });
    compare({real({2, 8, 3, 4}), w}, [](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{conv_transpose2d(in[0], in[1], {}, {.stride = 2})};
    });
  }
  if (device_is_emulated() && is_half(GetParam())) {
    EXPECT_EQ(emulated_unaligned_convolutions(), before);
  }
}

// Windows side by side are products, without cuDNN; others, and those of f32, are not.
TEST_P(ChannelsLast, PatchesAreProducts) {
  const auto embed = [&](const Shape& images, const Shape& windows, const ConvOptions& o) {
    const int before = emulated_convolutions();
    compare({real(images), real(windows, 0.3), real({windows[0]})},
            [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{gelu(conv2d(in[0], in[1], in[2], o))}; });
    return emulated_convolutions() - before;
  };
  const bool by_product = is_half(GetParam()) && device_is_emulated();
  const int all = !device_is_emulated() ? 0 : GetParam() == DType::f32 ? 1 : 3;  // f32's gradients are kernels of ours
  EXPECT_EQ(embed({2, 3, 12, 8}, {5, 3, 4, 4}, {.stride = 4}), by_product ? 0 : all);
  EXPECT_EQ(embed({3, 1, 6, 10}, {8, 1, 2, 5}, {.stride = {2, 5}}), by_product ? 0 : all);
  EXPECT_EQ(embed({2, 3, 13, 8}, {5, 3, 4, 4}, {.stride = 4}), all);  // a row is left over
  EXPECT_EQ(embed({2, 3, 12, 8}, {5, 3, 4, 4}, {.stride = 2}), all);
  EXPECT_EQ(embed({2, 3, 8, 8}, {5, 3, 4, 4}, {.stride = 4, .padding = 2}), all);
}

// The gradient of a bias where pixels follow a token, as in a vision transformer: neighbouring threads read
// neighbouring channels.
TEST_P(ChannelsLast, PixelsBehindATokenAreSummedAsTheyLie) {
  const auto embedded = [](const std::vector<Tensor>& in) {
    const Tensor seen = transpose(flatten(conv2d(in[0], in[1], in[2], {.stride = 4}), 2), 1, 2);
    return std::vector<Tensor>{tanh(cat({in[3], seen}, 1))};
  };
  const std::vector<Tensor> inputs{real({2, 3, 12, 8}), real({8, 3, 4, 4}, 0.3), real({8}), real({2, 1, 8})};
  compare(inputs, embedded);
  std::vector<Tensor> there;
  for (const Tensor& x : inputs) there.push_back(variable(x.to(kGpu)));
  const Tensor loss = sum(square(cast(embedded(there)[0], DType::f32)));
  const std::string text = print_schedule({backward(loss)[there[2]]});
  EXPECT_NE(text.find("columns sum"), std::string::npos) << text;
  EXPECT_EQ(text.find("row sum"), std::string::npos) << text;
}

// Planes of one row or column, images of one pixel, one channel: axes of one element have no order.
TEST_P(ChannelsLast, TapsOfWindowsAreChannelsInTheUsualOrder) {
  UnfoldOptions over;
  over.padding = 1, over.stride = 2;
  const Tensor w = real({6, 3, 1, 1}, 0.3);
  compare({real({2, 3, 10, 14}), w}, [&](const auto& in) {
    return std::vector<Tensor>{unfold(conv2d(in[0], in[1]), 3, over), unfold(in[0], 3, over)};
  });
  compare({real({2, 12, 9 * 13}), w}, [&](const auto& in) {
    return std::vector<Tensor>{conv2d(fold(in[0], {10, 14}, 2), in[1])};
  });
}

TEST_P(ChannelsLast, AxesOfOneElement) {
  for (const Shape& images :
       {Shape{2, 3, 1, 9}, Shape{2, 3, 9, 1}, Shape{2, 3, 1, 1}, Shape{2, 1, 4, 5}, Shape{1, 3, 4, 5}}) {
    SCOPED_TRACE(images[2] * 100 + images[3]);
    const Tensor w = real({2, images[1], 1, 1}), other = real({images[0], 2, images[2], images[3]});
    compare({real(images), w, other}, [](const std::vector<Tensor>& in) {
      const Tensor y = conv2d(in[0], in[1]);
      return std::vector<Tensor>{gelu(y) * in[2] + y, sum(y, 1), max(y, 2)};
    });
  }
}

TEST_P(ChannelsLast, OneDimension) {
  compare({real({2, 3, 11}), real({4, 3, 3}, 0.5), real({4}), real({2, 4, 3}, 0.5)}, [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{tanh(conv1d(relu(conv1d(in[0], in[1], in[2], {.padding = 1})), in[3]))};
  });
}

// A value evaluated on its own keeps the layout it was computed in, and is read like any other tensor.
TEST_P(ChannelsLast, ResultsAreReadInTheUsualOrder) {
  const Tensor x = real({2, 3, 4, 5}), w = real({6, 3, 3, 3}, 0.3);
  const Tensor here = relu(conv2d(x, w)).eval(), there = relu(conv2d(x.to(kGpu), w.to(kGpu))).eval();
  EXPECT_EQ(there.to(Device{}).shape(), here.shape());
  const Tensor again = (there * 2).to(Device{});
  const std::vector<double> a = here.to_vector<double>(), b = there.to_vector<double>(), c = again.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 0.05);
    ASSERT_EQ(c[i], 2 * b[i]);
  }
  EXPECT_EQ(reshape(there, {2, 36}).to_vector<double>(), b);
  EXPECT_EQ(narrow(there, 1, 2, 3).to_vector<double>(), narrow(there.to(Device{}), 1, 2, 3).to_vector<double>());
}

// Halves go from one convolution to the next without a copy; f32 has the usual order.
TEST_P(ChannelsLast, IsSeenInTheSchedule) {
  const Tensor x = real({2, 8, 6, 6}).to(kGpu), w = real({8, 8, 3, 3}, 0.2).to(kGpu);
  Tensor h = x;
  for (int k = 0; k < 3; ++k) h = relu(conv2d(h, w, {}, {.padding = 1}) + h);
  const std::string text = print_schedule({h});
  std::size_t calls = 0, last = 0, sweeps = 0;
  for (std::size_t at = 0; (at = text.find("call convolution", at)) != std::string::npos; ++at) ++calls;
  for (std::size_t at = 0; (at = text.find("last=true", at)) != std::string::npos; ++at) ++last;
  for (std::size_t at = 0; (at = text.find("sweep [", at)) != std::string::npos; ++at) ++sweeps;
  EXPECT_EQ(calls, 3u) << text;
  EXPECT_EQ(last, is_half(GetParam()) ? 3u : 0u) << text;
  EXPECT_EQ(sweeps, is_half(GetParam()) ? 5u : 3u) << text;  // images and windows are copied once for all readers
}

// Integers, which halves hold: the same largest elements are found, of equal ones the first, and gradients are added in
// the same order.
TEST_P(ChannelsLast, PoolsAreTheUsualOnes) {
  const auto whole = [&](const Shape& shape, int most) {
    return cast(randint(-most, most + 1, shape), GetParam()).eval();
  };
  struct Case {
    std::int64_t channels, height, width;
    std::function<std::pair<Tensor, Tensor>(const Tensor&)> pool;
  };
  const auto windows = [](SizePair window, const MaxPoolOptions& o) {
    return [=](const Tensor& x) { return max_pool2d_with_indices(x, window, o); };
  };
  const Case cases[] = {{16, 9, 8, windows(3, {.stride = 2, .padding = 1})},
                        {5, 7, 6, windows({2, 3}, {.stride = 1})},
                        {8, 11, 10, windows(3, {.stride = 3, .padding = 1, .dilation = 2, .ceil_mode = true})},
                        {1, 6, 6, windows(2, {})},
                        {24, 7, 5, [](const Tensor& x) {
                           return adaptive_max_pool2d_with_indices(x, {3, 4});
                         }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.channels);
    const Tensor x = whole({2, 3, c.height, c.width}, 3), w = whole({c.channels, 3, 1, 1}, 1);
    const auto run = [&](Device device) {
      const Tensor v = variable(x.to(device)), h = relu(conv2d(v, w.to(device)));
      const auto [y, index] = c.pool(h);
      const Tensor factors = cast(remainder(arange(y.numel()), 5) - 2, DType::f32).to(device);
      const Gradients g = backward(sum(cast(y, DType::f32) * reshape(factors, y.shape())));
      std::vector<Tensor> all{y, index, g[v]};
      eval(all);
      return all;
    };
    const std::vector<Tensor> here = run({}), there = run(kGpu);
    for (std::size_t k = 0; k < here.size(); ++k)
      EXPECT_EQ(here[k].to_vector<double>(), there[k].to_vector<double>()) << "result " << k;
  }
}

// Every element reads its windows; nothing is copied to another order.
TEST_P(ChannelsLast, PoolsAreSeenInTheSchedule) {
  const Tensor x = variable(real({2, 8, 6, 6}).to(kGpu)), w = variable(real({8, 8, 1, 1}).to(kGpu));
  const Tensor y = conv2d(max_pool2d(conv2d(x, w), 3, {.stride = 2, .padding = 1}), w);
  const std::string text = print_schedule({backward(sum(cast(y, DType::f32)))[w]});
  const bool half = is_half(GetParam());
  EXPECT_NE(text.find("call window_spread"), std::string::npos) << text;
  EXPECT_EQ(text.find("call scatter_zero_add"), std::string::npos) << text;
  EXPECT_EQ(text.find("-> i64[2, 3, 3, 8]") != std::string::npos, half) << text;
}

// The gradient that reaches a block goes through its norm and around it: it is stored once, by the sweep that sums it
// for the norm, and read by the sweep after those sums.
TEST_P(ChannelsLast, GradientsAroundABlockStayOnce) {
  if (!is_half(GetParam())) return;
  const Tensor x = real({2, 64, 16, 16}).to(kGpu), g = real({64}).to(kGpu), b = real({64}).to(kGpu);
  std::vector<Tensor> weights;
  Tensor h = x;
  for (int k = 0; k < 4; ++k) {
    weights.push_back(variable(real({64, 64, 1, 1}, 0.2).to(kGpu)));
    h = relu(normalized(conv2d(h, weights.back()), g, b) + h);
  }
  const Gradients all = backward(sum(cast(h, DType::f32)));
  std::vector<Tensor> roots;
  for (const Tensor& w : weights) roots.push_back(all[w]);
  for (const std::string& sweep : sweeps_of(roots))
    EXPECT_LE(images_in(sweep, "store #", GetParam(), 16384), 1u) << sweep;
}

// Where relu(norm(x)) is 0 both sweeps of its gradient recompute from x.
TEST_P(ChannelsLast, GradientsReadNoActivation) {
  if (!is_half(GetParam())) return;
  const Tensor x = real({2, 64, 16, 16}).to(kGpu), g = real({64}).to(kGpu), b = real({64}).to(kGpu);
  const Tensor w = variable(real({64, 64, 1, 1}, 0.2).to(kGpu)), last = real({64, 64, 1, 1}, 0.2).to(kGpu);
  const Tensor y = conv2d(relu(normalized(conv2d(x, w), g, b)), last);
  for (const std::string& sweep : sweeps_of({backward(sum(square(cast(y, DType::f32))))[w]}))
    EXPECT_LE(images_in(sweep, " = load #", GetParam(), 16384), 2u) << sweep;
}

// Mean and variance take one pass, then the image is normalised: it is read twice.
TEST_P(ChannelsLast, VarianceIsFoundWithTheMean) {
  if (!is_half(GetParam())) return;
  const Tensor x = real({2, 64, 16, 16}).to(kGpu), w = real({64, 64, 1, 1}, 0.2).to(kGpu);
  const Tensor mean = zeros({64}).to(kGpu), one = ones({64}).to(kGpu);
  const BatchNormResult r = batch_norm(conv2d(x, w), mean, one, {}, {}, {.training = true});
  const std::string image = std::string(name(GetParam())) + " [16384, 1024, 64, 1]";  // as the convolution left it
  std::size_t reads = 0;
  for (const std::string& sweep : sweeps_of({r.y, r.running_mean, r.running_var})) {
    for (std::size_t at = 0; (at = sweep.find(" = load #", at)) != std::string::npos; ++at)
      reads += sweep.substr(at, sweep.find('\n', at) - at).find(image) != std::string::npos;
  }
  EXPECT_EQ(reads, 2u) << print_schedule({r.y, r.running_mean, r.running_var});
}

// Channels that are nearly constant and far from zero, constant ones, and one with an outlier: the variance of the
// numbers that halves hold, to six digits.
TEST_P(ChannelsLast, VarianceOfNearlyConstantChannels) {
  const std::int64_t channels = 6, n = 4, side = 9, all = n * side * side;
  std::vector<double> numbers(static_cast<std::size_t>(n * channels * side * side));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t c = i / (side * side) % channels, odd = i % 2;
    const double of_channel[] = {240 + static_cast<double>(odd),
                                 1000,
                                 0,
                                 i < 81 * channels && i % 81 == 7 ? 3e4 : 1.0,
                                 -3e-3 * static_cast<double>(i % 5),
                                 odd ? 1.0 : 1.0078125};
    numbers[i] = of_channel[c];
  }
  const Tensor x = tensor_from(numbers, {n, channels, side, side}, GetParam()).eval();
  Tensor identity = cast(reshape(eye(channels), {channels, channels, 1, 1}), GetParam()).eval();
  const Tensor there = conv2d(x.to(kGpu), identity.to(kGpu));
  const Tensor zero = zeros({channels}), one = zeros({channels});
  const BatchNormResult r = batch_norm(there, zero.to(kGpu), one.to(kGpu), {}, {}, {.training = true, .momentum = 1});
  eval({r.y, r.running_var});
  const std::vector<double> held = x.to_vector<double>(), var = r.running_var.to_vector<double>();
  for (std::int64_t c = 0; c < channels; ++c) {
    double mean = 0, squares = 0;
    const auto each = [&](auto&& visit) {
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (static_cast<std::int64_t>(i / (side * side)) % channels == c) visit(held[i]);
      }
    };
    each([&](double a) { mean += a / static_cast<double>(all); });
    each([&](double a) { squares += (a - mean) * (a - mean) / static_cast<double>(all - 1); });
    EXPECT_NEAR(var[static_cast<std::size_t>(c)], squares, 2e-6 * squares + 1e-12) << "channel " << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ChannelsLast, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& p) { return std::string(name(p.param)); });

}  // namespace
}  // namespace ebb::testing
