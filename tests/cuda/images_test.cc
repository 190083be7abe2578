// SPDX-License-Identifier: MIT
// Pools and weighted sums of gathered elements on the GPU.
#include "core/format_error.h"
#include "cuda/library_on_gpu.h"
#include "expect_error.h"
#include "ops/index_nodes.h"

namespace ebb::testing {
namespace {

class ImagesOnGpu : public LibraryOnGpu {};

// Windows of one lane, of eight and of a warp; with gaps, overlapping, transposed images, and one that is padding
// except for a corner.
TEST_P(ImagesOnGpu, AveragePools) {
  for (const Shape& shape : {Shape{2, 3, 9, 17}, Shape{1, 1, 40, 33}, Shape{5, 2, 3, 3}}) {
    for (const std::int64_t window : {1, 2, 3}) {
      AvgPoolOptions o;
      o.stride = SizePair(window == 1 ? 2 : 1, 2);
      o.padding = SizePair(window / 2);
      o.count_include_pad = window == 2;
      compare(fmt::format("avg_pool2d of {}", shape[3]), {real(shape)},
              [&](const auto& x) { return avg_pool2d(x[0], window, o); });
      compare("avg_pool2d of a transposed image", {real(shape)},
              [&](const auto& x) { return avg_pool2d(transpose(x[0], 2, 3), window, o); });
    }
  }
  compare("large windows", {real({2, 3, 70, 61})}, [](const auto& x) { return avg_pool2d(x[0], {20, 19}); });
  compare("windows of 49", {real({2, 3, 30, 33})}, [](const auto& x) { return avg_pool2d(x[0], 7); });
  compare("lines", {real({2, 3, 301})}, [](const auto& x) { return avg_pool1d(x[0], 50); });
}

TEST_P(ImagesOnGpu, AdaptivePools) {
  for (const Shape& shape : {Shape{2, 3, 9, 17}, Shape{1, 5, 56, 56}, Shape{2, 1, 3, 2}, Shape{1, 1, 200, 3}}) {
    for (const SizePair output : {SizePair(5), SizePair(7, 3), SizePair(1), SizePair(1, 2)}) {
      compare("adaptive_avg_pool2d", {real(shape)}, [&](const auto& x) { return adaptive_avg_pool2d(x[0], output); });
      compare("adaptive_max_pool2d", {real(shape)}, [&](const auto& x) { return adaptive_max_pool2d(x[0], output); });
      compare("where the largest are", {real(shape)},
              [&](const auto& x) { return cast(adaptive_max_pool2d_with_indices(x[0], output).second, DType::f32); });
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = cast(tensor({{{1.0, nan, 3.0, nan, 5.0}}}), GetParam()).eval();
  compare("NaN", {x}, [](const auto& v) { return adaptive_max_pool1d(v[0], 2); });
  compare("mean of NaN", {x}, [](const auto& v) { return adaptive_avg_pool1d(v[0], 3); });
}

// Windows that 8 and 32 lanes share, or a block, which meet a NaN, ties and -inf in any order.
TEST_P(ImagesOnGpu, LargestOfLargeWindows) {
  for (const Shape& shape : {Shape{3, 5, 31, 17}, Shape{2, 3, 67, 61}, Shape{1, 2, 131, 97}, Shape{1, 3, 1, 9001}}) {
    const SizePair output(std::min<std::int64_t>(shape[2], 2), 2);
    const auto values = [&](const std::vector<Tensor>& x) { return adaptive_max_pool2d(x[0], output); };
    const auto places = [&](const std::vector<Tensor>& x) {
      return cast(adaptive_max_pool2d_with_indices(x[0], output).second, DType::f32);
    };
    const Tensor ties = cast(floor(2 * randn(shape)), GetParam()).eval(),
                 none = full(shape, -std::numeric_limits<double>::infinity(), GetParam()),
                 nans = where(randn(shape) > 2.5, std::numeric_limits<double>::quiet_NaN(), ties).eval();
    compare("values", {real(shape)}, values);
    for (const Tensor& x : {ties, none, nans}) expect_same(places({x}), places({x.to(kGpu)}), "places");
    compare("places in planes that lie by columns", {real(shape)}, [&](const auto& x) {
      return adaptive_max_pool2d(transpose(x[0], 2, 3), {2, output[0]});
    });
  }
}

// Elements that are in no window, in one or in several, planes that end within a thread's neighbours, and volumes.
// Gradients of windows that never meet are put, those of others added: both with ties and NaN, at the edges too.
TEST_P(ImagesOnGpu, GradientsOfLargestElements) {
  const auto gradient = [](const std::function<Tensor(const Tensor&)>& f) {
    return [f](const std::vector<Tensor>& in) {
      const Tensor v = variable(in[0]), y = f(v);
      return backward(sum(y * cast(reshape(1 + remainder(arange(y.numel()), 5), y.shape()), y.dtype())))[v];
    };
  };
  struct Case {
    Shape shape;
    SizePair window;
    MaxPoolOptions options;
  };
  for (const Case& c :
       {Case{{2, 3, 9, 12}, 2, {}}, Case{{2, 3, 9, 11}, 2, {.padding = 1}},
        Case{{1, 2, 11, 7}, {3, 2}, {.stride = SizePair{3, 2}, .ceil_mode = true}},
        Case{{1, 2, 13, 16}, 2, {.stride = SizePair{4, 3}, .padding = 1, .dilation = 2}},
        Case{{1, 2, 12, 12}, 2, {.stride = SizePair{2, 2}, .dilation = 2}},
        Case{{2, 2, 3, 40}, {3, 4}, {.stride = SizePair{1, 4}}}, Case{{1, 2, 9, 9}, 3, {.stride = SizePair{2, 2}}}})
    compare("max_pool2d's gradient", {round(real(c.shape) * 2)},
            gradient([&](const Tensor& x) { return max_pool2d(x, c.window, c.options); }));
  compare("max_pool1d's gradient", {real({2, 19, 5001})},
          gradient([](const Tensor& x) { return max_pool1d(x, 2, {.padding = 1}); }));
  for (const std::int64_t out : {1, 2, 3, 6, 7})
    compare(fmt::format("adaptive_max_pool1d's gradient, {} outputs", out), {round(real({2, 3, 12}) * 2)},
            gradient([&](const Tensor& x) { return adaptive_max_pool1d(x, out); }));
  const Tensor nan = cast(log(real({1, 1, 8, 8}) - 0.5), GetParam()).eval();
  compare("max_pool2d's gradient of NaN", {nan}, [](const std::vector<Tensor>& in) {
    const Tensor v = variable(in[0]);
    return backward(sum(nan_to_num(max_pool2d(v, 2))))[v];
  });
}

TEST_P(ImagesOnGpu, SpreadWindows) {
  for (const Shape& shape : {Shape{2, 3, 7, 9}, Shape{1, 5, 3, 2}, Shape{3, 1, 5, 1}}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      compare(fmt::format("stride {}", stride), {real(shape)}, [&](const auto& x) {
        return avg_pool2d(x[0], {2, 1}, {.stride = SizePair(stride)});
      });
    }
  }
  compare("avg_pool3d", {real({2, 3, 5, 7, 9})}, [](const auto& x) { return avg_pool3d(x[0], 2); });
  compare("avg_pool3d, padded", {real({1, 2, 6, 5, 4})}, [](const auto& x) {
    return avg_pool3d(x[0], {3, 2, 3}, {.stride = SizeTriple(2, 1, 2), .padding = SizeTriple(1, 0, 1)});
  });
  compare("max_pool3d", {real({2, 3, 5, 7, 9})}, [](const auto& x) { return max_pool3d(x[0], {3, 2, 2}); });
  compare("adaptive_max_pool3d", {real({1, 2, 7, 33, 21})}, [](const auto& x) { return adaptive_max_pool3d(x[0], 2); });
}

// Entries outside, elements with no source or thousands, more rows than a thread has, and second derivatives.
TEST_P(ImagesOnGpu, WeightedGather) {
  struct Sizes {
    std::int64_t images, rows, size, points, taps;
  };
  for (const Sizes& z : {Sizes{2, 3, 5, 7, 2}, Sizes{1, 17, 100, 33, 4}, Sizes{3, 8, 3, 700, 4},
                         Sizes{2, 1, 2000, 1, 1}, Sizes{1, 9, 1, 300, 1}, Sizes{2, 0, 4, 3, 2}, Sizes{2, 3, 4, 0, 2}}) {
    const Tensor index = (randint(0, z.size + 1, {z.images, z.points, z.taps}) - 1).eval();
    const Tensor x = real({z.images, z.rows, z.size}), w = real({z.images, z.points, z.taps}),
                 y = real({z.images, z.rows, z.points});
    const std::string of = fmt::format(" of {} x {} x {}", z.images, z.rows, z.size);
    compare("weighted_gather" + of, {x, index, w}, [](const auto& in) { return weighted_gather(in[0], in[1], in[2]); });
    const auto wide = [](const Tensor& t) { return cast(t, compute_dtype(t.dtype())); };
    compare("weighted_scatter" + of, {y, index, w},
            [&](const auto& in) { return weighted_scatter_node(in[0], in[1], wide(in[2]), z.size); });
    compare("gather_dot" + of, {x, y, index}, [](const auto& in) { return gather_dot_node(in[0], in[1], in[2]); });
  }
}

// Every option; more channels than a thread has, lanes that share them, elements that nothing or very many points go
// to.
TEST_P(ImagesOnGpu, GridSample) {
  struct Sizes {
    Shape image, grid;
    double reach;
  };
  const auto points = [&](const Sizes& z) { return cast((rand(z.grid) * 2 - 1) * z.reach, GetParam()).eval(); };
  const auto sample = [](const GridSampleOptions& o) {
    return [o](const auto& in) { return grid_sample(in[0], in[1], o); };
  };
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const Sizes z{{2, 3, 5, 7}, {2, 9, 4, 2}, 1.3};
      compare(fmt::format("{} {}", mode, padding), {real(z.image), points(z)},
              sample({mode, padding, padding[0] == 'b'}));
    }
  }
  const Sizes volume{{1, 2, 3, 4, 5}, {1, 3, 1, 40, 3}, 2.5};
  for (const char* mode : {"bilinear", "nearest"})
    compare(fmt::format("{} of a volume", mode), {real(volume.image), points(volume)}, sample({mode, "reflection"}));
  for (const Sizes& z : {Sizes{{1, 70, 4, 6}, {1, 5, 3, 2}, 1.1}, Sizes{{2, 9, 3, 2}, {2, 20, 40, 2}, 4},
                         Sizes{{1, 1, 30, 30}, {1, 1, 1, 2}, 1}, Sizes{{1, 2, 1, 1}, {1, 3, 3, 2}, 1.5},
                         Sizes{{1, 0, 3, 3}, {1, 2, 2, 2}, 1}, Sizes{{2, 2, 3, 3}, {2, 0, 2, 2}, 1}}) {
    compare("bilinear of " + z.image.str(), {real(z.image), points(z)}, sample({"bilinear", "border"}));
    compare("bicubic of " + z.image.str(), {real(z.image), points(z)}, sample({"bicubic", "reflection"}));
    compare("bicubic, padded, of " + z.image.str(), {real(z.image), points(z)}, sample({"bicubic", "border", true}));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor grid =
      cast(reshape(tensor({nan, 0.1, 0.2, nan, inf, 0.3, -inf, -inf}), {1, 1, 4, 2}), GetParam()).eval();
  for (const char* padding : {"zeros", "border", "reflection"})
    compare("NaN and infinity", {real({1, 2, 3, 3}), grid}, sample({"bilinear", padding}));
}

// Other sizes: gathers by an index that ascends, whose sums need no order, and windows of planes.
TEST_P(ImagesOnGpu, OtherSizes) {
  for (const auto& [from, to] : {std::pair{SizePair(9, 17), SizePair(13, 22)},
                                 {SizePair(5, 40), SizePair(3, 41)},
                                 {SizePair(1, 7), SizePair(4, 1)}}) {
    const Tensor x = real({2, 3, from[0], from[1]});
    for (const char* mode : {"nearest", "nearest-exact", "bilinear", "bicubic", "area"}) {
      InterpolateOptions o;
      o.mode = mode;
      o.size = {to[0], to[1]};
      compare(fmt::format("{} from {} to {}", mode, from[1], to[1]), {x},
              [&](const auto& in) { return interpolate(in[0], o); });
    }
  }
  // More terms than one call has for two axes, elements of a warp's and a block's terms, volumes, axes that stay.
  const auto resized = [&](const char* mode, const Shape& shape, const std::vector<std::int64_t>& size,
                           bool smooth = false) {
    InterpolateOptions o;
    o.mode = mode;
    o.size = size;
    o.antialias = smooth;
    compare(fmt::format("{} of {}", mode, shape.str()), {real(shape)},
            [&](const auto& in) { return interpolate(in[0], o); });
  };
  resized("bilinear", {2, 3, 4, 5}, {50, 41});
  resized("bicubic", {1, 9, 40, 7}, {11, 7}, true);
  resized("bicubic", {1, 2, 3, 70}, {3, 9}, true);
  resized("bilinear", {1, 2, 300, 5}, {2, 5}, true);
  resized("linear", {1, 2, 5}, {330});
  resized("linear", {1, 1, 2}, {5001});
  resized("nearest", {3, 1, 9001}, {2});
  resized("trilinear", {2, 3, 3, 4, 5}, {5, 4, 7});
  resized("nearest-exact", {1, 11, 2, 3, 4}, {2, 5, 4});
  InterpolateOptions long_lines;
  long_lines.mode = "nearest";
  long_lines.size = {1506};
  compare("long lines", {real({2, 3, 1501})}, [&](const auto& in) { return interpolate(in[0], long_lines); });
}

// Windows as columns and back, side by side and overlapping; pixels as channels.
TEST_P(ImagesOnGpu, FoldsAndPixels) {
  const Tensor x = real({2, 3, 10, 14}), y = real({2, 12, 35}), z = real({2, 12, 5, 7});
  UnfoldOptions apart, over;
  apart.stride = 2;
  over.padding = 1, over.stride = 2;
  compare("unfold", {x}, [&](const auto& in) { return unfold(in[0], 3, over); });
  compare("fold", {y}, [&](const auto& in) { return fold(in[0], {10, 14}, 2, apart); });
  compare("fold of overlapping windows", {real({2, 12, 9 * 13})}, [&](const auto& in) {
    return fold(in[0], {10, 14}, 2);
  });
  compare("pixel_shuffle", {z}, [](const auto& in) { return pixel_shuffle(in[0], 2); });
  compare("pixel_unshuffle", {x}, [](const auto& in) { return pixel_unshuffle(in[0], 2); });
}

TEST_P(ImagesOnGpu, WeightedGatherNamesTheIndexThatIsWrong) {
  const Tensor x = real({1, 2, 5}), index = from_data(std::vector<std::int64_t>{0, -1, 4, 5, -2, 1}, {1, 3, 2});
  const Tensor w = cast(ones({1, 3, 2}), GetParam()).eval();
  for (const Device device : {Device{}, kGpu}) {
    const Tensor there = index.to(device), v = variable(x.to(device));
    EXPECT_THROW_MESSAGE((void)weighted_gather(x.to(device), there, w.to(device)).to_vector<double>(),
                         "weighted_gather: index[0, 1, 1] = 5 is outside [0, 5)");
    EXPECT_THROW_MESSAGE(
        (void)weighted_scatter_node(real({1, 2, 3}).to(device), there, cast(w, compute_dtype(w.dtype())).to(device), 5)
            .to_vector<double>(),
        "weighted_gather: index[0, 1, 1] = 5 is outside [0, 5)");
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ImagesOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
