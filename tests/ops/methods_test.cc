// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>

#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"

namespace ebb {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.to_vector() == b.to_vector();
}

// {} would be the enumerator 0, f64, where a default-constructed Device, the CPU, may be meant.
template <class T>
concept TakesEmptyBraces = requires(const T& x) {
  x.to({});
};
static_assert(!TakesEmptyBraces<Tensor>);

TEST(Operators, OfMasksAreTheirLogic) {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}), low = x < 3.0, odd = (x == 1.0) | (x == 3.0);
  EXPECT_EQ((low & odd).to_vector<bool>(), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ((low | odd).to_vector<bool>(), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ((low ^ odd).to_vector<bool>(), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ((~low).to_vector<bool>(), (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ((tensor({6, 5}) & tensor({3, 1})).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 1}));
}

TEST(ToVector, OfBoolSaysWhatIsNotZero) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::bool_}) {
    EXPECT_EQ(tensor({0.0, 1.0, 3.0}).to(dtype).to_vector<bool>(), (std::vector<bool>{false, true, true})) << dtype;
  }
  EXPECT_EQ(tensor({0.25, -0.0}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_TRUE(tensor(0.25).item<bool>() && !tensor(-0.0).item<bool>());
  EXPECT_TRUE(zeros({0}).to_vector<bool>().empty());
}

TEST(Methods, AreTheFunctionsOfTheirName) {
  manual_seed(3);
  const Tensor x = rand({2, 3, 4}) + 0.5, m = randn({3, 5}), mask = x > 1.0;
  const Tensor index = tensor({2, 0}, DType::i64);
  EXPECT_TRUE(same(x.reshape({4, -1}), reshape(x, {4, -1})));
  EXPECT_TRUE(same(x.flatten(1), flatten(x, 1)));
  EXPECT_TRUE(same(x.unsqueeze(1).squeeze(1), x));
  EXPECT_TRUE(same(x.permute({2, 0, 1}), permute(x, {2, 0, 1})));
  EXPECT_TRUE(same(x.transpose(0, 2), transpose(x, 0, 2)));
  EXPECT_TRUE(same(m.t(), t(m)));
  EXPECT_TRUE(same(m.unsqueeze(0).expand({2, 3, 5}), expand(unsqueeze(m, 0), {2, 3, 5})));
  EXPECT_TRUE(same(m.t().contiguous(), t(m)));
  EXPECT_TRUE(same(x.to(DType::f64), cast(x, DType::f64)));
  EXPECT_TRUE(same(x.sum(), sum(x)) && same(x.sum(1, true), sum(x, 1, true)) && same(x.sum({0, 2}), sum(x, {0, 2})));
  EXPECT_TRUE(same(x.mean(-1), mean(x, -1)) && same(x.prod(0), prod(x, 0)));
  EXPECT_TRUE(same(x.max(1), max(x, 1)) && same(x.min(), min(x)));
  EXPECT_TRUE(same(x.var(1, false, 0), var(x, 1, false, 0)) && same(x.stddev(), stddev(x)));
  EXPECT_TRUE(same(x.norm(1, 2), norm(x, 1, 2)) && same(x.logsumexp(1), logsumexp(x, 1)));
  EXPECT_TRUE(same(mask.any(0), any(mask, 0)) && same(mask.all(), all(mask)));
  EXPECT_TRUE(same(x.argmax(1), argmax(x, 1)) && same(x.argmin(), argmin(x)) && same(x.cumsum(2), cumsum(x, 2)));
  EXPECT_TRUE(same(x.exp(), exp(x)) && same(x.log(), log(x)) && same(x.sqrt(), sqrt(x)) && same(x.square(), square(x)));
  EXPECT_TRUE(same(m.abs(), abs(m)) && same(m.sin(), sin(m)) && same(m.cos(), cos(m)) && same(m.tanh(), tanh(m)));
  EXPECT_TRUE(same(m.sigmoid(), sigmoid(m)) && same(m.relu(), relu(m)));
  EXPECT_TRUE(same(x.softmax(), softmax(x)) && same(x.log_softmax(1), log_softmax(x, 1)));
  EXPECT_TRUE(same(x.pow(2), pow(x, 2)) && same(x.pow(x), pow(x, x)));
  EXPECT_TRUE(same(x.clamp(0.6, 1.2), clamp(x, 0.6, 1.2)) && same(x.clamp({}, 1), clamp(x, {}, 1)));
  EXPECT_TRUE(same(x.masked_fill(mask, 0), masked_fill(x, mask, 0)));
  EXPECT_TRUE(same(m.t().matmul(m), matmul(t(m), m)));
  EXPECT_TRUE(same(x.select(1, -2), select(x, 1, 1)) && same(x.narrow(2, 1, 2), narrow(x, 2, 1, 2)));
  EXPECT_TRUE(same(x.flip(1), flip(x, 1)) && same(x.flip(), flip(x)));
  EXPECT_TRUE(same(m.std(1), stddev(m, 1)) && same(m.std(0, true, 0), stddev(m, 0, true, 0)));
  EXPECT_TRUE(same(x.median(2), median(x, 2)) && same(m.argsort(0, true), argsort(m, 0, true)));
  EXPECT_TRUE(same(m.sort(0, true).first, sort(m, 0, true).first) && same(m.sort().second, sort(m).second));
  EXPECT_TRUE(same(m.topk(2, 0, false).first, topk(m, 2, 0, false).first) && same(m.topk(2).second, topk(m, 2).second));
  EXPECT_TRUE(same(m.sign(), sign(m)) && same(m.floor(), floor(m)) && same(m.ceil(), ceil(m)) &&
              same(m.round(), round(m)));
  EXPECT_TRUE(same(m.expm1(), expm1(m)) && same(x.log1p(), log1p(x)) && same(m.erf(), erf(m)));
  EXPECT_TRUE(same(x.rsqrt(), rsqrt(x)) && same(m.reciprocal(), reciprocal(m)));
  ASSERT_EQ(m.split(2, 1).size(), 3U);
  EXPECT_TRUE(same(m.split(2, 1)[2], slice(m, 1, 4)) && same(m.chunk(3)[2], slice(m, 0, 2)));
  EXPECT_TRUE(same(x.index_select(1, index), index_select(x, 1, index)));
  const Tensor one = zeros({2, 1, 4}, DType::i64);
  EXPECT_TRUE(same(x.gather(1, one), gather(x, 1, one)));
}

TEST(Methods, ShapesDtypesAndDevicesArePrintedAsTheyAreNamed) {
  std::ostringstream text;
  text << zeros({2, 3}).shape() << " " << zeros({}).shape() << " " << DType::bf16 << " "
       << Device{Device::Kind::cuda, 1} << " " << Device{};
  EXPECT_EQ(text.str(), "[2, 3] [] bf16 cuda:1 cpu");
}

TEST(Methods, DetachedValuesAreConstants) {
  const Tensor w = variable(tensor({1.0, 2.0}));
  EXPECT_FALSE(w.detach().requires_grad());
  EXPECT_EQ(backward((w * w.detach()).sum())[w].to_vector(), (std::vector<double>{1, 2}));
}

TEST(Methods, AssignmentsLeaveOtherHandlesAlone) {
  Tensor x = tensor({1.0, 2.0});
  const Tensor before = x;
  x += 3;
  x *= x;
  x -= tensor({6.0, 5.0});
  x /= 2;
  EXPECT_EQ(x.to_vector(), (std::vector<double>{5, 10}));
  EXPECT_EQ(before.to_vector(), (std::vector<double>{1, 2}));
}

static_assert(std::is_same_v<ebb::AdamW, ebb::optim::AdamW>);

}  // namespace
}  // namespace ebb
