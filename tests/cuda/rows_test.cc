// SPDX-License-Identifier: MIT
// index_select and its gradient on cuda:0, against plain loops on the host: rows of all widths, views;
// bit-identical.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "core/format_error.h"
#include "cuda/emulated_device.h"
#include "cuda/print/sweep_text.h"
#include "ebb/ebb.h"
#include "emulated_device.h"
#include "expect_error.h"
#include "tied_numbers.h"

namespace ebb::testing {
namespace {

class RowsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(23);
  }
};
class RowsOfDType : public RowsOnGpu, public ::testing::WithParamInterface<DType> {};

std::vector<std::uint64_t> bits(const Tensor& t) {
  std::vector<std::uint64_t> all;
  for (const double x : t.to_vector<double>()) all.push_back(std::isnan(x) ? ~0ull : std::bit_cast<std::uint64_t>(x));
  return all;
}

// Σ of the slices of g whose index is the row, in order: f32 in f64, halves in f32, integers modulo their range.
Tensor added(const Tensor& g, const Shape& shape, int axis, const std::vector<std::int64_t>& index) {
  const DType dtype = g.dtype();
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= shape[d];
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  const auto place = [&](std::int64_t o, std::int64_t rows, std::int64_t r, std::int64_t i) {
    return static_cast<std::size_t>((o * rows + r) * inner + i);
  };
  const auto tokens = static_cast<std::int64_t>(index.size());
  const auto add = [&](const auto& from, auto& to, const auto& plus) {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t i = 0; i < inner; ++i) {
          auto& sum = to[place(o, shape[axis], index[static_cast<std::size_t>(t)], i)];
          sum = plus(sum, from[place(o, tokens, t, i)]);
        }
      }
    }
  };
  const auto n = static_cast<std::size_t>(shape.numel());
  if (is_floating(dtype)) {
    std::vector<double> sums(n);
    add(g.to_vector<double>(), sums,
        [&](double a, double b) { return is_half(dtype) ? static_cast<float>(a) + static_cast<float>(b) : a + b; });
    if (dtype == DType::f32) {
      for (double& x : sums) x = static_cast<float>(x);
    }
    return tensor_from(sums, shape, dtype);
  }
  std::vector<std::int64_t> sums(n);
  add(g.to_vector<std::int64_t>(), sums, [&](std::int64_t a, std::int64_t b) {
    const auto sum = static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b);
    return dtype == DType::u8    ? static_cast<std::int64_t>(static_cast<std::uint8_t>(sum))
           : dtype == DType::i32 ? std::int64_t{static_cast<std::int32_t>(sum)}
                                 : static_cast<std::int64_t>(sum);
  });
  return tensor_from(sums, shape, dtype);
}

Tensor row_numbers(const Shape& shape, DType dtype) {
  if (is_floating(dtype)) return cast(randn(shape) * 3, dtype).eval();
  return cast(randint(dtype == DType::u8 ? 0 : -(std::int64_t{1} << 30),
                      std::int64_t{1} << (dtype == DType::u8 ? 8 : 30), shape),
              dtype)
      .eval();
}

// 16 rows: some have no token, some a few, some just as many as the lanes of a row add, or one more, or
// many.
std::vector<std::int64_t> index_of_rows() {
  std::vector<std::int64_t> index;
  const int counts[] = {0, 1, 2, 3, 16, 17, 0, 5, 33, 4, 100, 0, 1, 15, 8, 0};
  for (int row = 0; row < 16; ++row) index.insert(index.end(), static_cast<std::size_t>(counts[row]), row);
  for (std::size_t i = index.size() - 1; i > 0; --i) std::swap(index[i], index[i * 7919 % (i + 1)]);
  return index;
}

void expect_added(const Tensor& g, const Shape& shape, int axis, const std::vector<std::int64_t>& index,
                  const Tensor& on_gpu, const Tensor& rows) {
  SCOPED_TRACE(fmt::format("{} {} into {}, axis {}", name(g.dtype()), g.shape(), shape, axis));
  const Tensor got = index_select_backward(on_gpu, shape, axis, rows);
  ASSERT_EQ(got.dtype(), g.dtype());
  ASSERT_EQ(bits(got), bits(added(g, shape, axis, index)));
}

TEST_P(RowsOfDType, AddRowsOfAllWidths) {
  const DType dtype = GetParam();
  if (dtype == DType::bool_) return;  // has no sums
  const std::vector<std::int64_t> index = index_of_rows();
  const auto tokens = static_cast<std::int64_t>(index.size());
  const Tensor rows = tensor_from(index, {tokens}, DType::i64).to(kGpu);
  // 768 bf16 are three packs per lane, 2056 several tiles; 33 is no multiple of a pack.
  std::vector<std::int64_t> widths = {8, 33, 768};
  if (dtype == DType::bf16 || dtype == DType::f32) widths = {1, 2, 7, 8, 16, 33, 64, 257, 768, 1032, 2056};
  for (const std::int64_t inner : widths) {
    const Tensor g = row_numbers({tokens, inner}, dtype);
    expect_added(g, {16, inner}, 0, index, g.to(kGpu), rows);
    if (HasFatalFailure()) return;
  }
  const Tensor batch = row_numbers({3, tokens, 2, 20}, dtype), along_last = row_numbers({5, tokens}, dtype);
  expect_added(batch, {3, 16, 2, 20}, 1, index, batch.to(kGpu), rows);
  expect_added(along_last, {5, 16}, 1, index, along_last.to(kGpu), rows);
}

TEST_F(RowsOnGpu, AddRowsOfViews) {
  const std::vector<std::int64_t> index = index_of_rows();
  const auto tokens = static_cast<std::int64_t>(index.size());
  const Tensor rows = tensor_from(index, {tokens}, DType::i64).to(kGpu);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    // Dense, but not at a multiple of 16 bytes.
    const Tensor flat = row_numbers({tokens * 64 + 1}, dtype);
    const Tensor g = reshape(narrow(flat, 0, 1, tokens * 64), {tokens, 64}).eval();
    const Tensor there = flat.to(kGpu).eval();
    expect_added(g, {16, 64}, 0, index, reshape(narrow(there, 0, 1, tokens * 64), {tokens, 64}), rows);
    // Strided, and every second of the index, as i32.
    const Tensor turned = transpose(row_numbers({64, tokens}, dtype).to(kGpu).eval(), 0, 1);
    const Tensor doubled = reshape(stack({rows, rows * 0}, 1), {2 * tokens}).eval();
    expect_added(turned.to(Device{}), {16, 64}, 0, index, turned,
                 cast(doubled, DType::i32).eval().slice(0, 0, 2 * tokens, 2));
  }
  EXPECT_EQ(bits(index_select_backward(zeros({0, 24}).to(kGpu), {3, 24}, 0, rows.slice(0, 0, 0))),
            bits(zeros({3, 24})));
  EXPECT_EQ(index_select_backward(zeros({tokens, 0}).to(kGpu), {16, 0}, 0, rows).to_vector<double>().size(), 0u);
  // Zeros of both signs begin at +0; overflow and NaN are preserved.
  const Tensor special =
      tensor_from(std::vector<double>{-0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1, 1, 2}, {2, 4}, DType::f32);
  for (const std::vector<std::int64_t>& to : {std::vector<std::int64_t>{1, 1}, {0, 2}})
    expect_added(special, {3, 4}, 0, to, special.to(kGpu), tensor_from(to, {2}, DType::i64).to(kGpu));
  EXPECT_THROW_MESSAGE(
      index_select_backward(ones({tokens, 8}).to(kGpu), {15, 8}, 0, rows + 1).eval().to_vector<double>(),
      "is outside [0, 15)");
}

TEST_P(RowsOfDType, SelectRowsOfAllWidths) {
  const DType dtype = GetParam();
  const std::vector<std::int64_t> index = index_of_rows();
  const auto tokens = static_cast<std::int64_t>(index.size());
  const Tensor rows = tensor_from(index, {tokens}, DType::i64), there = rows.to(kGpu);
  const auto same = [&](const char* what, const Tensor& x, int axis, const std::function<Tensor(const Tensor&)>& view) {
    SCOPED_TRACE(fmt::format("{}, {} {}, axis {}", what, name(x.dtype()), x.shape(), axis));
    EXPECT_EQ(bits(index_select(view(x.to(kGpu).eval()), axis, there)), bits(index_select(view(x), axis, rows)));
  };
  const auto itself = [](const Tensor& t) { return t; };
  for (const std::int64_t inner : {1, 2, 7, 24, 33, 768, 2056}) same("rows", tied({16, inner}, dtype), 0, itself);
  const Tensor x = tied({3, 16, 5, 8}, dtype);
  same("an axis in the middle", x, 1, itself);
  same("slices that are not dense", tied({16, 5, 16}, dtype), 0, [](const Tensor& t) { return t.slice(2, 0, 8); });
  same("the last axis", tied({6, 16}, dtype), 1, itself);
  same("a transpose", tied({24, 16}, dtype), 0, [](const Tensor& t) { return transpose(t, 0, 1); });
  same("rows apart, the second byte", tied({17, 40}, dtype), 0,
       [](const Tensor& t) { return t.slice(0, 1, 17).slice(1, 1, 33); });
  same("repeated", tied({1, 16, 8}, dtype), 1, [](const Tensor& t) { return broadcast_to(t, {4, 16, 8}); });
}

TEST_F(RowsOnGpu, SelectNothingOrWhatIsNotThere) {
  const Tensor there = randint(0, 16, {9}).to(kGpu);
  EXPECT_EQ(index_select(zeros({16, 0}).to(kGpu), 0, there).numel(), 0);
  EXPECT_EQ(index_select(zeros({16, 8}).to(kGpu), 0, there.slice(0, 0, 0)).to_vector<double>().size(), 0u);
  EXPECT_THROW_MESSAGE(index_select(ones({16, 300}).to(kGpu), 0, tensor({3, 4, -1}).to(kGpu)).to_vector<double>(),
                       "index_select: index[2] = -1 is outside [0, 16)");
}

INSTANTIATE_TEST_SUITE_P(Of, RowsOfDType,
                         ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                                           DType::u8, DType::bool_),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace ebb::testing
