// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "cases/all_cases.h"
#include "ebb/ebb.h"
#include "table/case_name.h"

// The same bits for every number of threads, for each operation of the table and its gradient.
namespace ebb::table {
namespace {

std::vector<double> value_and_gradients(const Case& c, const Operands& o) {
  Tensors inputs = o.tensors;
  std::vector<std::size_t> variables;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (c.inputs[k].kind != Input::Kind::real) continue;
    inputs[k] = variable(inputs[k]);
    variables.push_back(k);
  }
  const Tensor y = c.call(inputs);
  std::vector<double> all = cast(y, DType::f64).to_vector();
  if (info(c.op).grad != OpGrad::yes) return all;
  BackwardOptions options;
  options.grad = cos(reshape(arange(0, y.numel(), 1, DType::f32), y.shape())).eval();
  const Gradients g = backward(y, options);
  for (std::size_t k : variables) {
    const std::vector<double> more = cast(g[inputs[k]], DType::f64).to_vector();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

class Repeatable : public ::testing::TestWithParam<std::size_t> {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

TEST_P(Repeatable, ForEveryNumberOfThreads) {
  const Case& c = all_cases()[GetParam()];
  ASSERT_EQ(c.large.size(), c.inputs.size()) << "the case says no large shapes";
  const Operands o = draw(c, c.large, DType::f32, Layout::contiguous, 1);
  std::vector<double> first;
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const std::vector<double> now = value_and_gradients(c, o);
    if (threads == 1) {
      first = now;
      continue;
    }
    ASSERT_EQ(now.size(), first.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_TRUE(now[i] == first[i] || (now[i] != now[i] && first[i] != first[i]))
          << "element " << i << " is " << now[i] << " with " << threads << " threads, " << first[i] << " with one";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Repeatable, ::testing::Range(std::size_t{0}, all_cases().size()), case_name);

// ---- a row is the same alone and in a batch -------------------------------------------------------------------------

struct RowFunction {
  const char* name;
  Tensor (*f)(const Tensor&);
};
const RowFunction kRowFunctions[] = {
    {"sum", [](const Tensor& x) { return sum(x, 1); }},
    {"softmax", [](const Tensor& x) { return softmax(x); }},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, Shape{x.size(1)}); }},
    {"logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }},
    {"matmul",
     [](const Tensor& x) {
       return matmul(x, cos(reshape(arange(0, 5 * x.size(1), 1, x.dtype()), {x.size(1), 5})));
     }},
    {"cross_entropy",
     [](const Tensor& x) {
       return -gather(log_softmax(x), 1, full({x.size(0), 1}, 3, DType::i64));
     }},
    {"cross_entropy_gradient",
     [](const Tensor& x) {
       return grad(Function([](const Tensor& z) {
         return -sum(gather(log_softmax(z), 1, full({z.size(0), 1}, 3, DType::i64)));
       }))(x);
     }},
};

class RowAlone : public ::testing::TestWithParam<std::tuple<RowFunction, std::int64_t>> {};

TEST_P(RowAlone, IsTheRowInABatch) {
  const auto& [function, length] = GetParam();
  manual_seed(5);
  set_batch_invariant(true);  // a GPU needs this setting
  for (DType dtype : {DType::f32, DType::f64}) {
    const std::int64_t rows = length < 10000 ? 300 : 5;
    const Tensor batch = (3 * randn({rows, length}, dtype)).eval();
    const std::vector<double> together = function.f(batch).to_vector();
    const std::size_t each = together.size() / static_cast<std::size_t>(rows);
    for (std::int64_t r : {std::int64_t{0}, rows / 2, rows - 1}) {
      const std::vector<double> alone = function.f(contiguous(narrow(batch, 0, r, 1))).to_vector();
      const std::vector<double> inside(
          together.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * each),
          together.begin() + static_cast<std::ptrdiff_t>((static_cast<std::size_t>(r) + 1) * each));
      EXPECT_EQ(alone, inside) << "row " << r << " " << ebb::name(dtype);
    }
  }
  set_batch_invariant(false);
}

INSTANTIATE_TEST_SUITE_P(
    Of, RowAlone, ::testing::Combine(::testing::ValuesIn(kRowFunctions), ::testing::Values(5, 1000, 1025, 70000)),
    [](const auto& i) { return std::string(std::get<0>(i.param).name) + "_" + std::to_string(std::get<1>(i.param)); });

}  // namespace
}  // namespace ebb::table
