// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "graph/origin.h"

// Data-dependent errors name the line that built the operation. This file is compiled with debugging information.
namespace ebb {
namespace {

struct WithOrigins {
  WithOrigins() { set_origins(true); }
  ~WithOrigins() { set_origins(false); }
};

std::string here(int line) { return " (built at " + std::string(__FILE__) + ":" + std::to_string(line) + ")"; }

TEST(Origins, ACallNamesTheLineThatBuiltIt) {
  const WithOrigins on;
  const Tensor x = ones({3, 3}) - ones({3, 3});
  const Tensor y = inv(x); const int line = __LINE__;  // clang-format off
  const Tensor z = sum(y * 2);
  EXPECT_THROW_MESSAGE(z.eval(), "is singular (pivot 1 is zero)" + here(line));
}

TEST(Origins, SoDoesAnOperationInsideASweep) {
  const WithOrigins on;
  const Tensor target = full({3}, 7);
  const Tensor loss = cross_entropy(rand({3, 5}), target); const int line = __LINE__;
  EXPECT_THROW_KIND((loss + 1).eval(), index, "cross_entropy: target[0] = 7 is outside [0, 5)" + here(line));
}

TEST(Origins, OfTwoLikeOperationsInOneCallTheRightOneIsNamed) {
  const WithOrigins on;
  const Tensor table = rand({4, 2});
  const Tensor good = embedding(table, full({2}, 1));
  const Tensor bad = embedding(table, full({2}, 9)); const int line = __LINE__;
  EXPECT_THROW_KIND((good + bad).eval(), index, here(line));
}

TEST(Origins, ACompiledFunctionKnowsItsLines) {
  const WithOrigins on;
  int line = 0;
  const Function f = compile(Function([&](const Tensor& x) {
    line = __LINE__; return inv(x) + 1;
  }));
  EXPECT_NO_THROW(f(eye(2).eval()));
  EXPECT_THROW_MESSAGE(f(zeros({2, 2}).eval()), here(line));
}

TEST(Origins, OffTheTextIsPlainAndNothingIsKept) {
  const Tensor y = inv(zeros({2, 2}));
  EXPECT_EQ(origin_of(*y.node()), nullptr);
  try {
    y.eval();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("built at"), std::string::npos) << error.what();
  }
}

TEST(Origins, AreForgottenWithTheirOperations) {
  const WithOrigins on;
  {
    const Tensor x = square(ones({2}) + 1);
    EXPECT_NE(origin_of(*x.node()), nullptr);
    EXPECT_GT(detail::origins_kept, 0);
  }
  EXPECT_EQ(detail::origins_kept, 0);
}

}  // namespace
}  // namespace ebb
