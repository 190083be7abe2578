// SPDX-License-Identifier: MIT
// Convolutions on the GPU: by kernels of our own and by cuDNN.
#include "calls/convolution.h"
#include "core/format_error.h"
#include "cuda/library/weight_gradient.h"
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
  // The gradients of f32's windows are a kernel of our own, but for few outputs per group.
  EXPECT_EQ(emulated_convolutions() - before, GetParam() == DType::f32 ? 4 * (3 * 2 + 3) : 4 * 4 * 3);
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

INSTANTIATE_TEST_SUITE_P(Of, ConvolutionsOnGpu, kFloats, dtype_of_test);

TEST(WeightGradientPlans, AreChosenByShapes) {
  const auto plan = [](const Shape& x, const Shape& w, ConvCall o = {}) -> std::string {
    Shape y{x[0], w[0], 0, 0};
    for (const int d : {2, 3}) {
      const auto axis = static_cast<std::size_t>(d - 2);
      y = y.with(d, (x[d] + 2 * o.padding[axis] - o.dilation[axis] * (w[d] - 1) - 1) / o.stride[axis] + 1);
    }
    LibraryCall call{Op::conv_weight_gradient, {}, nullptr, {}, {}};
    call.attrs.options = make_options(o);
    const auto view = [](const Shape& s) { return View{nullptr, DType::f32, s, contiguous_strides(s)}; };
    const View inputs[] = {view(x), view(y)}, outputs[] = {view(w)};
    call.inputs = inputs;
    call.outputs = outputs;
    const auto made = cuda::plan_weight_gradient(call, cuda::GpuModel());
    return made ? cuda::describe(*made) : "";
  };
  EXPECT_EQ(plan({16, 4, 128, 512}, {64, 4, 3, 3}), "tiles of 64 by 64, 1037 parts of 992 positions");
  EXPECT_EQ(plan({64, 128, 56, 56}, {128, 128, 3, 3}), "tiles of 64 by 64, 29 parts of 6464 positions");
  EXPECT_EQ(plan({1, 3, 5, 5}, {7, 3, 3, 3}), "tiles of 16 by 32, 1 part of 32 positions");
  EXPECT_EQ(plan({8, 512, 7, 7}, {512, 512, 3, 3}), "tiles of 64 by 64, 1 part of 224 positions");
  ConvCall depthwise;
  depthwise.groups = 32;
  EXPECT_EQ(plan({8, 32, 56, 56}, {32, 1, 3, 3}, depthwise), "");
  set_tf32(true);
  EXPECT_EQ(plan({16, 4, 128, 512}, {64, 4, 3, 3}), "");
  set_tf32(false);
}

}  // namespace
}  // namespace ebb::testing
