// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebb/ebb.h"
#include "expect_error.h"

// The hinges of multilabel_margin_loss have a kernel of their own: lists of every length, rows of every tail, every
// dtype and layout, compared with plain loops.
namespace ebb {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
const LossOptions kNone{.reduction = Reduction::none};

using List = std::vector<std::int64_t>;

// Rows of `classes` targets: the lists, and -1 where they end.
Tensor targets(const std::vector<List>& lists, std::int64_t classes, DType dtype = DType::i64) {
  std::vector<std::int64_t> all;
  for (const List& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
    all.resize(all.size() + static_cast<std::size_t>(classes) - list.size(), -1);
  }
  return cast(from_data(all, {static_cast<std::int64_t>(lists.size()), classes}), dtype);
}

// `length` targets among `classes`, spread; every seventh is listed again.
List some_targets(std::int64_t length, std::int64_t classes) {
  List list;
  for (std::int64_t k = 0; k < length; ++k) list.push_back(k % 7 == 6 ? list[0] : (k * 37 + 11) % classes);
  return list;
}

struct Expected {
  double loss = 0;
  std::vector<double> slopes;  // of the sum of hinges: whole numbers
};
// Which hinges are open is decided in T, as in the loss; their values are summed in double.
template <class T>
Expected plain_loops(const double* x, std::size_t classes, const List& list) {
  Expected e{0, std::vector<double>(classes)};
  std::vector<bool> listed(classes);
  for (std::int64_t y : list) listed[static_cast<std::size_t>(y)] = true;
  for (std::int64_t y : list) {
    const auto at = static_cast<std::size_t>(y);
    const T offset = T(1) - static_cast<T>(x[at]);
    double of_target = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      const T hinge = static_cast<T>(x[i]) + offset;
      if (listed[i] || hinge <= 0) continue;
      of_target += static_cast<double>(hinge);
      e.slopes[i] += 1;
      e.slopes[at] -= 1;
    }
    e.loss += of_target / static_cast<double>(classes);
  }
  return e;
}

struct MarginAndGradient {
  Tensor value, gradient;
};
MarginAndGradient differentiate_margin(const Tensor& x, const Tensor& target, const Tensor& cotangent) {
  const Tensor v = variable(x), loss = multilabel_margin_loss(v, target, kNone);
  const Tensor g = backward(loss, {.grad = cotangent})[v];
  return {loss.eval(), g};
}

double unit(DType dtype) { return dtype == DType::f64 ? 1e-15 : dtype == DType::f32 ? 1e-7 : 4e-3; }

void expect_plain_loops(const Tensor& x, const std::vector<List>& lists, const Tensor& target) {
  const std::int64_t rows = x.size(0), classes = x.size(1);
  const Tensor cotangent = cast(0.5 * (1 + arange(rows)), x.dtype());
  const MarginAndGradient got = differentiate_margin(x, target, cotangent);
  ASSERT_EQ(got.value.dtype(), x.dtype());
  ASSERT_EQ(got.gradient.dtype(), x.dtype());
  // The value alone is a separate call of the kernel.
  EXPECT_EQ(multilabel_margin_loss(x, target, kNone).to_vector(), got.value.to_vector());
  const std::vector<double> numbers = x.to_vector(), value = got.value.to_vector(), slope = got.gradient.to_vector(),
                            scale = cotangent.to_vector();
  for (std::size_t n = 0; n < lists.size(); ++n) {
    const auto c = static_cast<std::size_t>(classes);
    const double* row = numbers.data() + n * c;
    const Expected e =
        x.dtype() == DType::f64 ? plain_loops<double>(row, c, lists[n]) : plain_loops<float>(row, c, lists[n]);
    // One number per target is added in double, on both sides.
    const double near = 20 * unit(x.dtype()) + 2e-16 * static_cast<double>(lists[n].size());
    EXPECT_NEAR(value[n], e.loss, near * e.loss) << "row " << n;
    for (std::size_t i = 0; i < c; ++i) {
      const double expected = e.slopes[i] * scale[n] / static_cast<double>(classes);
      ASSERT_NEAR(slope[n * c + i], expected, 4 * unit(x.dtype()) * std::abs(expected))
          << "row " << n << " class " << i;
    }
  }
}

TEST(MultilabelMargin, IsWhatPlainLoopsGive) {
  manual_seed(5);
  for (std::int64_t classes : {1, 2, 15, 16, 17, 100, 1030, 2600}) {
    std::vector<List> lists;
    for (std::int64_t length : {0, 1, 2, 3, 4, 5, 9, 40})
      lists.push_back(some_targets(std::min(length, classes), classes));
    List all;  // every class is listed: no hinges are left
    for (std::int64_t i = classes; i-- > 0;) all.push_back(i);
    lists.push_back(all);
    lists.push_back(List(static_cast<std::size_t>(classes), classes / 2));  // one class, over and over
    lists.push_back(some_targets((classes + 1) / 2, classes));
    const Tensor x = (1.5 * randn({static_cast<std::int64_t>(lists.size()), classes}, DType::f64)).eval();
    for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(::testing::Message() << classes << " classes, " << name(dtype));
      expect_plain_loops(cast(x, dtype).eval(), lists, targets(lists, classes));
    }
    SCOPED_TRACE(::testing::Message() << classes << " classes, i32 targets, columns in memory");
    const Tensor columns = transpose(transpose(x, 0, 1).eval() + 0, 0, 1);
    const Tensor target = transpose((transpose(targets(lists, classes, DType::i32), 0, 1) + 0).eval(), 0, 1);
    expect_plain_loops(columns, lists, target);
    expect_plain_loops(cast(columns, DType::bf16).eval(), lists, target);
  }
}

TEST(MultilabelMargin, OneSampleIsOneRow) {
  const Tensor x = randn({6}, DType::f64).eval(), target = tensor({4, 1, -1, 0, 0, 0});
  const MarginAndGradient one = differentiate_margin(x, target, tensor(2.0, DType::f64));
  EXPECT_EQ(one.value.shape(), Shape{});
  const MarginAndGradient row = differentiate_margin(unsqueeze(x, 0), unsqueeze(target, 0), tensor({2.0}, DType::f64));
  EXPECT_EQ(one.value.to_vector(), row.value.to_vector());
  EXPECT_EQ(one.gradient.to_vector(), row.gradient.to_vector());
}

// Bytes hold no -1, so their lists have no end.
TEST(MultilabelMargin, BytesListEveryPosition) {
  const Tensor x = tensor({{0.5, 2.0, 1.0}}), bytes = cast(tensor({{1, 0, 1}}), DType::u8);
  EXPECT_EQ(multilabel_margin_loss(x, bytes).item(), multilabel_margin_loss(x, tensor({{1, 0, 1}})).item());
}

TEST(MultilabelMargin, HasTheDerivativesOfItsDifferences) {
  manual_seed(3);
  const Tensor x = randn({4, 9}, DType::f64).eval();
  const Tensor target = targets({{3, 8}, {}, {0, 1, 2, 0, 5, 6}, {4}}, 9);
  for (Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const Function loss = [&](const Tensor& v) { return multilabel_margin_loss(v, target, {.reduction = r}); };
    EXPECT_NO_THROW(require_gradients(loss, x));
    EXPECT_NO_THROW(require_second_gradients(loss, x));
    // A cotangent that depends on the loss itself.
    EXPECT_NO_THROW(require_second_gradients([&](const Tensor& v) { return square(loss(v)); }, x));
  }
}

TEST(MultilabelMargin, GivesTheSameBitsForAnyNumberOfThreads) {
  manual_seed(8);
  const std::int64_t rows = 70, classes = 1500;
  std::vector<List> lists;
  for (std::int64_t n = 0; n < rows; ++n) lists.push_back(some_targets(n, classes));
  const Tensor x = randn({rows, classes}).eval(), target = targets(lists, classes).eval(), g = ones({rows});
  const int before = num_threads();
  set_num_threads(1);
  const MarginAndGradient alone = differentiate_margin(x, target, g);
  const std::vector<double> value = alone.value.to_vector(), gradient = alone.gradient.to_vector();
  for (int threads : {2, 5}) {
    set_num_threads(threads);
    const MarginAndGradient shared = differentiate_margin(x, target, g);
    EXPECT_EQ(shared.value.to_vector(), value) << threads;
    EXPECT_EQ(shared.gradient.to_vector(), gradient) << threads;
  }
  set_num_threads(before);
}

TEST(MultilabelMargin, LooksAtNoNumberWhileItIsBuilt) {
  const auto step = [](const std::vector<Tensor>& v) {
    auto [loss, g] = value_and_grad(Function([&](const Tensor& x) { return multilabel_margin_loss(x, v[1]); }))(v[0]);
    return std::vector<Tensor>{loss, g};
  };
  const FunctionToMany compiled = compile(FunctionToMany(step));
  for (unsigned seed : {1u, 2u, 3u}) {
    manual_seed(seed);
    const Tensor x = randn({3, 50}).eval();
    const Tensor target = targets({some_targets(seed, 50), {}, some_targets(20 * seed - 10, 50)}, 50);
    const std::vector<Tensor> a = compiled({x, target}), b = step({x, target});
    EXPECT_EQ(a[0].to_vector(), b[0].to_vector());
    EXPECT_EQ(a[1].to_vector(), b[1].to_vector());
  }
}

TEST(MultilabelMargin, InfinitiesAndNanAreNotLost) {
  const auto loss = [](std::vector<double> x, const List& list) {
    const auto classes = static_cast<std::int64_t>(x.size());
    return multilabel_margin_loss(from_data(x, {1, classes}), targets({list}, classes)).item();
  };
  EXPECT_TRUE(std::isnan(loss({0, kNan, 0}, {0})));  // below a target
  EXPECT_TRUE(std::isnan(loss({0, kNan, 0}, {1})));  // the target itself
  EXPECT_TRUE(std::isnan(loss({0, -5, kNan}, {0, 1})));
  EXPECT_EQ(loss({kInfinity, 1, 2}, {0}), 0);
  EXPECT_EQ(loss({-kInfinity, 1, 2}, {0}), kInfinity);
  EXPECT_EQ(loss({0, kInfinity, 2}, {0}), kInfinity);
  EXPECT_EQ(loss({0, -kInfinity, -2}, {0}), 0);
  EXPECT_TRUE(std::isnan(loss({kInfinity, kInfinity, 0}, {0})));  // the difference of two infinities is undefined
  EXPECT_EQ(loss({0, kNan, kInfinity}, {}), 0);                   // no target, no hinge
  // A hinge that is NaN is not closed.
  const MarginAndGradient r = differentiate_margin(tensor({{0.0, kNan, -3.0}}), tensor({{0, -1, -1}}), tensor({3.0}));
  EXPECT_EQ(r.gradient.to_vector(), (std::vector<double>{-1, 1, 0}));
  // Closed hinges have no slope, however large the cotangent.
  const MarginAndGradient far =
      differentiate_margin(tensor({{5.0, 4.5, -3.0}}), tensor({{0, -1, -1}}), tensor({kInfinity}));
  EXPECT_EQ(far.gradient.to_vector(), (std::vector<double>{-kInfinity, kInfinity, 0}));
}

TEST(MultilabelMargin, NamesTheFirstTargetThatIsNoClass) {
  const Tensor x = zeros({40, 2000});
  std::vector<List> lists(40, List{1, 2});
  lists[17] = {5, 6, 2000, -7};
  lists[31] = {-2};
  EXPECT_THROW_KIND(multilabel_margin_loss(x, targets(lists, 2000)).item(), index,
                    "multilabel_margin_loss: target[17, 2] = 2000 is outside [0, 2000)");
  lists[17] = {5, 6, -1, 2000};  // after the end of the list
  EXPECT_THROW_KIND(multilabel_margin_loss(x, targets(lists, 2000, DType::i32)).item(), index,
                    "multilabel_margin_loss: target[31, 0] = -2 is outside [0, 2000)");
  EXPECT_THROW_KIND(multilabel_margin_loss(zeros({3}), tensor({0, 3, -1})).item(), index,
                    "multilabel_margin_loss: target[1] = 3 is outside [0, 3)");
  const Tensor v = variable(zeros({1, 3}));
  EXPECT_THROW_MESSAGE(backward(multilabel_margin_loss(v, tensor({{4, -1, -1}})))[v].eval(), "target[0, 0] = 4");
}

}  // namespace
}  // namespace ebb
