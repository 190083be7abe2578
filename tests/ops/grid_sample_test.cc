// SPDX-License-Identifier: MIT
#include "cases/grid_reference.h"
#include "ebb/ebb.h"
#include "expect_error.h"
#include "values.h"

namespace ebb {
namespace {

constexpr const char* kModes[] = {"bilinear", "nearest", "bicubic"};
constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};

std::vector<GridSampleOptions> all_options() {
  std::vector<GridSampleOptions> all;
  for (const char* mode : kModes) {
    for (const char* padding : kPaddings) {
      for (const bool align : {false, true}) all.push_back({mode, padding, align});
    }
  }
  return all;
}
GridSampleCall call_of(const GridSampleOptions& o) {
  GridSampleCall call;
  call.taps = o.mode == "nearest" ? 1 : o.mode == "bilinear" ? 2 : 4;
  call.padding = o.padding_mode == "zeros" ? 0 : o.padding_mode == "border" ? 1 : 2;
  call.align_corners = o.align_corners;
  return call;
}
std::string text_of(const GridSampleOptions& o) {
  return o.mode + " " + o.padding_mode + (o.align_corners ? " aligned" : "");
}

Tensor image_numbers(const Shape& shape, DType dtype = DType::f64) { return cast(randn(shape), dtype).eval(); }
// Some points are up to an image's size outside of it.
Tensor points(const Shape& shape, DType dtype = DType::f64) { return cast(rand(shape) * 6 - 3, dtype).eval(); }
table::Array array_of(const Tensor& t, const Shape& shape) {
  table::Array a(table::Index(shape.begin(), shape.end()));
  a.values = cast(t, DType::f64).to_vector();
  return a;
}
table::Array array_of(const Tensor& t) { return array_of(t, t.shape()); }

class GridSample : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(5); }
};

TEST_F(GridSample, IsTheFormulaForEveryOptionAndDtype) {
  struct Sizes {
    Shape image, grid;
  };
  for (const Sizes& z : {Sizes{{2, 3, 7, 5}, {2, 4, 9, 2}}, Sizes{{1, 2, 1, 300}, {1, 1, 600, 2}},
                         Sizes{{2, 1, 3, 4, 5}, {2, 3, 1, 7, 3}}}) {
    for (const GridSampleOptions& o : all_options()) {
      for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
        const Tensor x = image_numbers(z.image, dtype), grid = points(z.grid, dtype);
        const int axes = z.image.rank() - 2;
        const Shape flat{z.grid[0], z.grid.numel() / z.grid[0] / axes, axes};
        const table::Array want = table::grid_sample_reference(call_of(o), array_of(x), array_of(grid, flat));
        const Tensor y = grid_sample(x, grid, o);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.size(-1), z.grid[axes]);
        const double unit = dtype == DType::f64   ? 1e-12
                            : dtype == DType::f32 ? 2e-4
                            : dtype == DType::f16 ? 2e-3
                                                  : 1e-2;
        const std::vector<double> got = cast(y, DType::f64).to_vector();
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want.values[i], unit * (1 + std::fabs(want.values[i])))
              << text_of(o) << " " << name(dtype) << " " << z.image.str() << " element " << i;
      }
    }
  }
}

TEST_F(GridSample, GradientsAreDifferencesToTheSecondOrder) {
  for (const GridSampleOptions& o : all_options()) {
    const auto f = [&](const std::vector<Tensor>& v) { return grid_sample(v[0], v[1], o); };
    const std::vector<Tensor> plane{image_numbers({2, 2, 3, 4}), points({2, 1, 5, 2})};
    const std::vector<Tensor> volume{image_numbers({1, 1, 2, 3, 2}), points({1, 1, 2, 2, 3})};
    for (const auto& inputs : {plane, volume}) {
      EXPECT_NO_THROW(require_gradients(f, inputs)) << text_of(o);
      if (o.mode == "nearest") continue;  // linear in the image, flat in the grid
      EXPECT_NO_THROW(require_second_gradients(f, inputs)) << text_of(o);
    }
  }
}

// The third derivative of a cubic by its points, by differences of the second.
TEST_F(GridSample, ThirdDerivativesAreDifferencesOfTheSecond) {
  const Tensor x = image_numbers({1, 1, 5, 5});
  const GridSampleOptions cubic{.mode = "bicubic"};
  const auto curvature = [&](const Tensor& g) {
    const auto slope = [&](const Tensor& p) {
      return grad([&](const Tensor& q) { return sum(grid_sample(x, q, cubic)); })(p);
    };
    return grad([&](const Tensor& p) { return sum(square(slope(p))); })(g);
  };
  require_gradients(curvature, reshape(row({0.13, -0.27, 0.41, 0.52}), {1, 1, 2, 2}));
}

TEST_F(GridSample, IsTheSameForAnyNumberOfThreadsAndWhereverItLies) {
  const int before = num_threads();
  for (const GridSampleOptions& o : all_options()) {
    const Tensor x = image_numbers({3, 70, 20, 31}, DType::f32), grid = points({3, 33, 40, 2}, DType::f32);
    const auto results = [&](const Tensor& image, const Tensor& at) {
      const Tensor a = variable(image), b = variable(at), y = grid_sample(a, b, o);
      const Gradients g = backward(sum(y * y));
      std::vector<std::vector<float>> all;
      for (const Tensor& t : {y, g[a], g[b]}) all.push_back(contiguous(t).to_vector<float>());
      return all;
    };
    set_num_threads(1);
    const auto one = results(x, grid);
    set_num_threads(3);
    EXPECT_EQ(one, results(x, grid)) << text_of(o);
    const Tensor turned = transpose(transpose(x, 1, 3).eval(), 1, 3),
                 other = transpose(transpose(grid, 1, 3).eval(), 1, 3);
    const auto there = results(turned, other);
    EXPECT_EQ(one, there) << text_of(o);
  }
  set_num_threads(before);
}

TEST_F(GridSample, NanStaysAndInfinityIsFarOutside) {
  const Tensor x = reshape(row({1, 2, 3, 4}), {1, 1, 2, 2});
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const GridSampleOptions& o : all_options()) {
      const auto at = [&](double a, double b) {
        return grid_sample(cast(x, dtype), cast(reshape(row({a, b}), {1, 1, 1, 2}), dtype), o);
      };
      expect_values(at(kNaN, 0.2), {kNaN});
      expect_values(at(0.2, kNaN), {kNaN});
      const bool mirrored = o.padding_mode == "reflection", zeros = o.padding_mode == "zeros";
      expect_values(at(kInf, -kInf), {mirrored ? kNaN : zeros ? 0 : 2}, 1e-5);
      expect_values(at(-kInf, kInf), {mirrored ? kNaN : zeros ? 0 : 3}, 1e-5);
      expect_values(at(-3e30, -3e30), {mirrored ? at(-3e30, -3e30).to_vector<double>()[0] : zeros ? 0 : 1}, 1e-5);
      // Gradients go only to elements that were read.
      const Tensor image = variable(cast(x, dtype));
      const Tensor y = grid_sample(image, cast(reshape(row({kNaN, 0, 1e30, 0}), {1, 1, 2, 2}), dtype), o);
      for (const double g : backward(sum(y))[image].to_vector<double>()) EXPECT_TRUE(std::isfinite(g)) << text_of(o);
    }
  }
}

TEST_F(GridSample, OfNothingIsNothing) {
  for (const GridSampleOptions& o : all_options()) {
    EXPECT_EQ(grid_sample(zeros({0, 2, 3, 3}), zeros({0, 4, 5, 2}), o).eval().shape(), Shape({0, 2, 4, 5}));
    const Tensor x = variable(zeros({1, 0, 3, 3})), grid = variable(zeros({1, 4, 5, 2}));
    const Gradients g = backward(sum(grid_sample(x, grid, o)));
    expect_values(g[grid], std::vector<double>(40, 0));
    const Tensor image = variable(ones({1, 1, 2, 2}));
    expect_values(backward(sum(grid_sample(image, zeros({1, 0, 5, 2}), o)))[image], {0, 0, 0, 0});
  }
}

TEST_F(GridSample, NamesWhatDoesNotFit) {
  const Tensor x = zeros({1, 2, 3, 4});
  EXPECT_THROW_MESSAGE(grid_sample(x, zeros({1, 5, 6, 3})), "got [1, 2, 3, 4] and [1, 5, 6, 3]");
  EXPECT_THROW_MESSAGE(grid_sample(x, zeros({2, 5, 6, 2})), "got [1, 2, 3, 4] and [2, 5, 6, 2]");
  EXPECT_THROW_MESSAGE(grid_sample(zeros({1, 2, 3}), zeros({1, 5, 2})), "grid_sample: needs [N, C, H, W]");
  EXPECT_THROW_MESSAGE(grid_sample(zeros({1, 2, 0, 4}), zeros({1, 5, 6, 2})),
                       "grid_sample: axis 2 of the input's shape [1, 2, 0, 4] has no elements to read");
  EXPECT_THROW_MESSAGE(grid_sample(x, zeros({1, 5, 6, 2}), {.mode = "cubic"}), "mode is 'bilinear'");
  EXPECT_THROW_MESSAGE(grid_sample(x, zeros({1, 5, 6, 2}), {.padding_mode = "wrap"}), "got 'wrap'");
}

}  // namespace
}  // namespace ebb
