// SPDX-License-Identifier: MIT
// Attention within consecutive documents: values and gradients as with a mask of blocks, and as for each document
// alone.
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "test_device.h"

namespace ebb::testing {
namespace {

using Lengths = std::vector<std::int64_t>;

// The number of each position's document, for rows of documents of these lengths.
Tensor documents_of(const std::vector<Lengths>& rows) {
  std::vector<std::int64_t> ids;
  std::int64_t next = 5;
  for (const Lengths& row : rows) {
    for (const std::int64_t n : row) ids.insert(ids.end(), static_cast<std::size_t>(n), next), next = 7 - next % 5;
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  return from_data(ids, {count, static_cast<std::int64_t>(ids.size()) / count});
}

// o, dq, dk and dv.
std::vector<Tensor> all_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                           const AttentionOptions& options) {
  const Tensor x = variable(q), y = variable(k), z = variable(v);
  const Tensor o = scaled_dot_product_attention(x, y, z, options);
  const Gradients all = backward(sum(cast(o, DType::f32) * cast(g, DType::f32)));
  return {o, all[x], all[y], all[z]};
}

void expect_close_results(const std::vector<Tensor>& wanted, const std::vector<Tensor>& found, double tolerance) {
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    ASSERT_EQ(wanted[r].shape(), found[r].shape());
    const auto a = wanted[r].to_vector<double>(), b = found[r].to_vector<double>();
    double most = 0;
    for (const double x : a) most = std::max(most, std::fabs(x));
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], tolerance * most) << "result " << r << ", element " << i;
  }
}

// Documents shorter and longer than tiles, of one position, ending at the ends of tiles.
const std::vector<std::vector<Lengths>> kRows{
    {{300}}, {{1, 63, 64, 172}}, {{130, 20, 1, 1, 98, 50}, {1, 299}}, {{256, 44}, {10, 290}}, {{2, 2, 2, 1}}};

TEST(PackedAttention, IsThatOfAMaskOfBlocks) {
  manual_seed(2);
  for (std::size_t n = 0; n < kRows.size(); ++n) {
    if (testing::on_emulated_gpu() && n != 1 && n != 4) continue;
    const auto& rows = kRows[n];
    const Tensor ids = documents_of(rows);
    const std::int64_t batch = ids.size(0), length = ids.size(1);
    // Numbers repeat, but not consecutively: blocks of the mask must not join them.
    const Tensor runs = cumsum(
        cast(cat({ones({batch, 1}, DType::bool_), narrow(ids, 1, 1, length - 1) != narrow(ids, 1, 0, length - 1)}, 1),
             DType::i64),
        1);
    const Tensor blocks = unsqueeze(unsqueeze(runs, 2) == unsqueeze(runs, 1), 1);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto drawn = [&](std::int64_t heads) { return cast(randn({batch, heads, length, 16}), dtype).eval(); };
      const Tensor q = drawn(4), k = drawn(2), v = drawn(2), g = drawn(4);
      for (const bool causal : {false, true}) {
        expect_close_results(all_of(q, k, v, g, {.mask = blocks, .causal = causal}),
                             all_of(q, k, v, g, {.causal = causal, .documents = ids}),
                             dtype == DType::f32 ? 1e-5 : 2e-2);
      }
    }
  }
}

TEST(PackedAttention, IsThatOfEachDocumentAlone) {
  manual_seed(4);
  const Lengths lengths{70, 3, 127, 60};
  const Tensor ids = reshape(documents_of({lengths}), {260});
  const auto drawn = [&] { return randn({1, 2, 260, 8}).eval(); };
  const Tensor q = drawn(), k = drawn(), v = drawn();
  for (const bool causal : {false, true}) {
    const Tensor packed = scaled_dot_product_attention(q, k, v, {.causal = causal, .documents = ids});
    std::int64_t at = 0;
    for (const std::int64_t n : lengths) {
      const auto part = [&](const Tensor& x) { return narrow(x, 2, at, n); };
      expect_close_results({scaled_dot_product_attention(part(q), part(k), part(v), {.causal = causal})},
                           {part(packed)}, 1e-5);
      at += n;
    }
  }
}

TEST(PackedAttention, HasAMaskSecondDerivativesAndDropout) {
  manual_seed(6);
  const Tensor ids = documents_of({{3, 4}, {5, 2}}), mask = randn({7, 7});
  const Tensor q = randn({2, 1, 7, 4}), k = randn({2, 1, 7, 4}), v = randn({2, 1, 7, 4});
  const Tensor blocks = where(unsqueeze(unsqueeze(ids, 2) == unsqueeze(ids, 1), 1), mask, -1e30);
  expect_close_results({scaled_dot_product_attention(q, k, v, {.mask = blocks})},
                       {scaled_dot_product_attention(q, k, v, {.mask = mask, .documents = ids})}, 1e-5);
  const auto product = [&](const AttentionOptions& o) {
    return hvp([&](const Tensor& x) { return sum(square(scaled_dot_product_attention(x, k, v, o))); }, q, v);
  };
  expect_close_results({product({.mask = blocks})}, {product({.mask = mask, .documents = ids})}, 1e-4);
  const Tensor dropped = scaled_dot_product_attention(q, k, ones_like(v), {.dropout = 0.5, .documents = ids});
  for (const double x : dropped.to_vector<double>()) EXPECT_GE(x, 0);
}

TEST(PackedAttention, SaysWhatIsWrong) {
  const Tensor q = ones({2, 1, 3, 4}), longer = ones({2, 1, 5, 4});
  EXPECT_THROW_MESSAGE((void)scaled_dot_product_attention(q, q, q, {.documents = ones({2, 3})}),
                       "scaled_dot_product_attention: documents are whole numbers, got f32");
  EXPECT_THROW_MESSAGE((void)scaled_dot_product_attention(q, longer, longer, {.documents = zeros({2, 3}, DType::i64)}),
                       "scaled_dot_product_attention: documents need as many keys as queries, got 5 and 3");
  EXPECT_THROW_MESSAGE((void)scaled_dot_product_attention(q, q, q, {.documents = zeros({3, 3}, DType::i64)}),
                       "documents of shape [3, 3] do not broadcast to the positions' shape [2, 3]");
}

}  // namespace
}  // namespace ebb::testing
