// SPDX-License-Identifier: MIT
// Convolutions on the GPU: by kernels of our own and by cuDNN.
#include "core/format_error.h"
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
  EXPECT_EQ(emulated_convolutions() - before, 4 * 4 * 3);
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

INSTANTIATE_TEST_SUITE_P(Of, ConvolutionsOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
