// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "cases/all_cases.h"
#include "ebb/ebb.h"
#include "table/case_name.h"

// A compiled function gives the bits of the function, for each operation of the table and its gradient: with other
// numbers than those it was built on, for every shape and layout of the inputs.
namespace ebb::table {
namespace {

// The value and the gradients of all real inputs, as a function of the inputs.
FunctionToMany with_gradients(const Case& c) {
  return [&c](const Tensors& xs) {
    Tensors inputs = xs;
    std::vector<std::size_t> variables;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (c.inputs[k].kind != Input::Kind::real || info(c.op).grad != OpGrad::yes) continue;
      inputs[k] = variable(inputs[k]);
      variables.push_back(k);
    }
    const Tensor y = c.call(inputs);
    Tensors results{y};
    if (variables.empty() || !y.requires_grad()) return results;
    BackwardOptions options;
    options.grad = cos(reshape(arange(0, y.numel(), 1, DType::f32), y.shape()));
    const Gradients g = backward(y, options);
    for (std::size_t k : variables) results.push_back(g[inputs[k]]);
    return results;
  };
}

void expect_same_bits(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  ASSERT_EQ(got.dtype(), expected.dtype());
  const std::vector<double> a = cast(got, DType::f64).to_vector(), b = cast(expected, DType::f64).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) << "element " << i << " " << a[i] << " " << b[i];
}

class Compiled : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Compiled, GivesTheBitsOfTheFunction) {
  const Case& c = all_cases()[GetParam()];
  const FunctionToMany f = with_gradients(c), compiled = compile(f);
  for (const Layout layout : kLayouts) {
    for (const std::vector<Index>& shapes : c.shapes) {
      compiled(draw(c, shapes, DType::f32, layout, 1).tensors);  // built on these numbers, or on none
      const Operands o = draw(c, shapes, DType::f32, layout, 2);
      const Tensors got = compiled(o.tensors), expected = f(o.tensors);
      eval(expected);  // together, like the compiled ones: how sums are divided depends on what is computed with them
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(got[k].evaluated());
        expect_same_bits(got[k], expected[k]);
        ASSERT_FALSE(HasFatalFailure()) << "result " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Compiled, ::testing::Range(std::size_t{0}, all_cases().size()), case_name);

}  // namespace
}  // namespace ebb::table
