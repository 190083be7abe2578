// SPDX-License-Identifier: MIT
// Convolutions on the GPU: by kernels of our own and by cuDNN.
#include <limits>

#include "calls/convolution.h"
#include "core/format_error.h"
#include "cuda/library/kernels.h"
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

class ConvolutionsOnGpu : public LibraryOnGpu {};

TEST_P(ConvolutionsOnGpu, Convolutions) {
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
TEST_P(ConvolutionsOnGpu, ConvolutionsByCudnn) {
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
  compare("conv2d of more channels", {real({2, 26, 5, 6}), real({5, 26, 3, 2})},
          [](const std::vector<Tensor>& in) { return conv2d(in[0], in[1]); });
  // In f32, gradients are kernels of our own, but those of windows with few outputs per group, and of images with many
  // channels.
  EXPECT_EQ(emulated_convolutions() - before, GetParam() == DType::f32 ? 4 * (3 + 2) + 2 : 4 * 4 * 3 + 3);
}

// Tensor cores round factors of f32: they are taken where that is asked for.
TEST_P(ConvolutionsOnGpu, TensorCoresWhereAskedFor) {
  if (!device_is_emulated()) GTEST_SKIP() << "the emulated cuDNN counts what it was asked for";
  const struct Installed {
    Installed() { cuda::install_cudnn(&emulated_cudnn()); }
    ~Installed() { cuda::install_cudnn(nullptr), set_tf32(false); }
  } installed;
  const Tensor x = real({3, 4, 9, 8}), w = real({6, 4, 3, 2});
  for (const bool asked : {false, true, false}) {
    set_tf32(asked);
    const int before = emulated_convolutions_by_tensor_cores();
    compare("conv2d", {x, w}, [](const std::vector<Tensor>& in) { return conv2d(in[0], in[1]); });
    EXPECT_EQ(emulated_convolutions_by_tensor_cores() - before, GetParam() != DType::f32 || asked ? 3 : 0);
  }
}

// Tiles that are full and not, several parts, windows over the edges, images and cotangents that are views.
TEST_P(ConvolutionsOnGpu, GradientsOfWindows) {
  struct Case {
    Shape x, w;
    ConvOptions o;
  };
  ConvOptions plain, strided, dilated, grouped;
  strided.stride = {3, 2};
  strided.padding = {2, 1};
  dilated.dilation = {2, 3};
  dilated.padding = {4, 3};
  grouped.groups = 2;
  for (const auto& [x, w, o] :
       {Case{{3, 5, 40, 41}, {17, 5, 3, 3}, plain}, Case{{2, 70, 5, 6}, {66, 70, 1, 1}, plain},
        Case{{1, 2, 1, 1500}, {3, 2, 1, 9}, strided}, Case{{2, 3, 9, 11}, {33, 3, 5, 4}, strided},
        Case{{2, 9, 12, 13}, {8, 9, 3, 2}, dilated}, Case{{2, 8, 9, 7}, {20, 4, 2, 2}, grouped},
        Case{{1, 1, 3, 3}, {1, 1, 3, 3}, plain}}) {
    const std::string what = fmt::format("{} by {}", x, w);
    compare(what, {real(x), real(w)},
            [&, &o = o](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, o); });
    compare(what + ", views", {real({x[3], x[0], x[2], x[1]}), real(w)}, [&, &o = o](const std::vector<Tensor>& in) {
      return permute(conv2d(permute(in[0], {1, 3, 2, 0}), in[1], {}, o), {2, 0, 3, 1});
    });
  }
}

// Windows of one channel, and images whose gradients have classes of positions: with different taps, with none (a
// stride beyond the windows), more and fewer channels than a tile, several blocks of positions and chunks of taps.
TEST_P(ConvolutionsOnGpu, DirectKernels) {
  struct Case {
    Shape x, w;
    ConvOptions o;
  };
  const auto options = [](SizePair stride, Padding padding, SizePair dilation, std::int64_t groups) {
    ConvOptions o;
    o.stride = stride, o.padding = padding, o.dilation = dilation, o.groups = groups;
    return o;
  };
  for (const auto& [x, w, o] :
       {Case{{2, 3, 21, 33}, {3, 1, 3, 3}, options(1, 1, 1, 3)}, Case{{1, 2, 9, 8}, {6, 1, 2, 3}, options(1, 0, 1, 2)},
        Case{{2, 4, 7, 9}, {4, 1, 5, 5}, options({2, 3}, {1, 2}, 1, 4)},
        Case{{1, 2, 13, 16}, {2, 1, 3, 2}, options({4, 2}, {2, 1}, {2, 4}, 2)},
        Case{{1, 2, 11, 10}, {2, 1, 2, 2}, options(3, 0, 1, 2)},
        Case{{2, 2, 1, 40}, {2, 1, 1, 11}, options(1, {0, 5}, 1, 2)},
        Case{{1, 17, 12, 11}, {5, 17, 3, 3}, options(2, 1, 1, 1)},
        Case{{1, 5, 40, 37}, {9, 5, 3, 2}, options(1, 1, 1, 1)},
        Case{{2, 20, 5, 6}, {3, 20, 2, 2}, options({1, 2}, 0, 1, 1)},
        Case{{1, 6, 6, 7}, {4, 3, 3, 3}, options(2, 1, 2, 2)}, Case{{1, 3, 4, 4}, {2, 3, 1, 1}, options(3, 0, 1, 1)}}) {
    const Tensor bias = real({w[0]});
    const std::string what = fmt::format("{} by {}", x, w);
    compare(what, {real(x), real(w), bias},
            [&, &o = o](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2], o); });
    compare(what + ", views", {real({x[3], x[0], x[2], x[1]}), real({w[2], w[1], w[0], w[3]})},
            [&, &o = o](const std::vector<Tensor>& in) {
              return flip(conv2d(flip(permute(in[0], {1, 3, 2, 0}), 3), permute(in[1], {2, 1, 0, 3}), {}, o), 2);
            });
  }
  ConvTransposeOptions up;
  up.stride = 2, up.padding = 1;
  compare("conv_transpose2d", {real({2, 5, 7, 6}), real({5, 9, 3, 3})},
          [&](const std::vector<Tensor>& in) { return conv_transpose2d(in[0], in[1], {}, up); });
  // Zeros beyond the edges are not multiplied.
  const double inf = std::numeric_limits<double>::infinity();
  compare("infinite windows",
          {real({1, 2, 3, 3}),
           cast(tensor_from(std::vector<double>{inf, 1, -inf, 2}, {2, 1, 1, 2}, DType::f64), GetParam()).eval()},
          [&, o = options(1, {0, 1}, 1, 2)](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, o); });
}

INSTANTIATE_TEST_SUITE_P(Of, ConvolutionsOnGpu, kFloats, dtype_of_test);

// One of the three operations, by the shapes of x and w.
std::string plan_of(Op op, const Shape& x, const Shape& w, ConvCall o = {}, DType dtype = DType::f32) {
  Shape y{x[0], w[0], 0, 0};
  for (const int d : {2, 3}) {
    const auto axis = static_cast<std::size_t>(d - 2);
    y = y.with(d, (x[d] + 2 * o.padding[axis] - o.dilation[axis] * (w[d] - 1) - 1) / o.stride[axis] + 1);
  }
  const auto view = [&](const Shape& s) { return View{nullptr, dtype, s, contiguous_strides(s)}; };
  const bool forward = op == Op::convolution, windows = op == Op::conv_weight_gradient;
  const View inputs[] = {view(forward || windows ? x : y), view(windows ? y : w)};
  const View outputs[] = {view(forward ? y : windows ? w : x)};
  LibraryCall call{op, {}, nullptr, {}, {}};
  call.attrs.options = make_options(o);
  call.inputs = inputs;
  call.outputs = outputs;
  return cuda::describe_convolution(call, cuda::GpuModel());
}

TEST(DirectPlans, AreChosenByShapes) {
  ConvCall depthwise, strided, both;
  depthwise.groups = 4;
  strided.stride = both.stride = {2, 2};
  const std::string usual;
  EXPECT_EQ(plan_of(Op::convolution, {8, 4, 256, 512}, {4, 1, 3, 3}, depthwise),
            "direct: 1 channel of 4 positions per thread");
  EXPECT_EQ(plan_of(Op::convolution, {8, 4, 256, 512}, {8, 1, 3, 3}, depthwise, DType::bf16),
            "direct: 2 channels of 4 positions per thread");
  EXPECT_EQ(plan_of(Op::convolution, {8, 4, 256, 512}, {4, 1, 3, 3}, depthwise, DType::f64), usual);
  EXPECT_EQ(plan_of(Op::convolution, {8, 8, 256, 512}, {4, 2, 3, 3}, depthwise), usual);
  EXPECT_EQ(plan_of(Op::convolution, {8, 3, 256, 512}, {64, 3, 3, 3}), usual);
  EXPECT_EQ(plan_of(Op::conv_transpose, {20, 3, 65, 513}, {53, 3, 3, 3}),
            "direct: 3 channels of 4 positions per thread");
  EXPECT_EQ(plan_of(Op::conv_transpose, {20, 64, 65, 513}, {53, 64, 3, 3}), usual);
  EXPECT_EQ(plan_of(Op::conv_transpose, {16, 65, 178, 226}, {53, 65, 3, 3}, strided),
            "direct: 13 channels of 4 positions per thread");
  EXPECT_EQ(plan_of(Op::conv_transpose, {1, 16, 9, 9}, {8, 16, 3, 3}, strided),
            "direct: 16 channels of 1 position per thread");
  EXPECT_EQ(plan_of(Op::conv_transpose, {1, 16, 9, 9}, {8, 16, 3, 3}, strided, DType::bf16), usual);
  strided.stride = {64, 2};
  EXPECT_EQ(plan_of(Op::conv_transpose, {1, 16, 9, 9}, {8, 16, 3, 3}, strided), usual);
  EXPECT_EQ(plan_of(Op::conv_weight_gradient, {8, 4, 256, 512}, {4, 1, 3, 3}, depthwise),
            "9 taps per block, 254 parts of 4096 positions");
  set_tf32(true);
  EXPECT_EQ(plan_of(Op::conv_transpose, {20, 3, 65, 513}, {53, 3, 3, 3}), usual);
  EXPECT_EQ(plan_of(Op::convolution, {8, 4, 256, 512}, {4, 1, 3, 3}, depthwise),
            "direct: 1 channel of 4 positions per thread");
  set_tf32(false);
}

TEST(WeightGradientPlans, AreChosenByShapes) {
  const auto plan = [](const Shape& x, const Shape& w) { return plan_of(Op::conv_weight_gradient, x, w); };
  EXPECT_EQ(plan({16, 4, 128, 512}, {64, 4, 3, 3}), "tiles of 64 by 64, 1037 parts of 992 positions");
  EXPECT_EQ(plan({64, 128, 56, 56}, {128, 128, 3, 3}), "tiles of 64 by 64, 29 parts of 6464 positions");
  EXPECT_EQ(plan({1, 3, 5, 5}, {7, 3, 3, 3}), "tiles of 16 by 32, 1 part of 32 positions");
  EXPECT_EQ(plan({8, 512, 7, 7}, {512, 512, 3, 3}), "tiles of 64 by 64, 1 part of 224 positions");
  ConvCall grouped;
  grouped.groups = 32;
  EXPECT_EQ(plan_of(Op::conv_weight_gradient, {8, 128, 56, 56}, {128, 4, 3, 3}, grouped), "");
  set_tf32(true);
  EXPECT_EQ(plan({16, 4, 128, 512}, {64, 4, 3, 3}), "");
  set_tf32(false);
}

}  // namespace
}  // namespace ebb::testing
