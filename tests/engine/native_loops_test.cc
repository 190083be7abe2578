#include <gtest/gtest.h>

#include <cmath>

#include "cpu/native_loop.h"
#include "ebb/ebb.h"
#include "expect_error.h"

// Sweeps large enough for loops of machine code: what the user sees stays the same.
namespace ebb {
namespace {

Tensor signs(std::int64_t n) { return where(rand({n}) > 0.5, 1.0, -1.0).eval(); }

TEST(NativeLoops, NameTheElementThatFailsACheck) {
  manual_seed(3);
  for (std::int64_t n : {20000, 20011}) {
    for (std::int64_t bad : {std::int64_t{0}, std::int64_t{1027}, std::int64_t{16383}, n - 1}) {
      std::vector<float> y = signs(n).to_vector<float>();
      y[static_cast<std::size_t>(bad)] = 0.5f;
      y[static_cast<std::size_t>(n - 1)] = 0.5f;
      const Tensor x = variable(randn({n}).eval()), target = from_data(y, {n});
      EXPECT_THROW_MESSAGE(
          backward(hinge_loss(x, target))[x].eval(),
          "hinge_loss: target must be 1 or -1, but the element at [" + std::to_string(bad) + "] is 0.5");
    }
  }
}

TEST(NativeLoops, GiveEveryTailItsDue) {
  manual_seed(4);
  for (std::int64_t n = 9200; n < 9233; ++n) {
    const Tensor x = variable(randn({n}).eval()), y = randn({n}).eval();
    const Gradients g = backward(huber_loss(x, y));
    const std::vector<float> gradient = g[x].to_vector<float>(), a = x.to_vector<float>(), b = y.to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = std::fmin(std::fmax(a[i] - b[i], -1.0), 1.0) / static_cast<double>(n);
      ASSERT_NEAR(gradient[i], d, 1e-6 * std::fabs(d) + 1e-12) << i << " of " << n;
    }
  }
}

}  // namespace
}  // namespace ebb
