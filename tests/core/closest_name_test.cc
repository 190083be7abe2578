// SPDX-License-Identifier: MIT
#include "core/closest_name.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::string_view kNames[] = {"mse_loss", "huber_loss", "hinge_loss", "kl_div", "kl_divergence", "var"};

TEST(ClosestName, FindsWhatWasMeant) {
  EXPECT_EQ(closest_name("hubber_loss", kNames), "huber_loss");
  EXPECT_EQ(closest_name("mse", kNames), "mse_loss");  // cut short
  EXPECT_EQ(closest_name("variance", kNames), "var");  // spelt out
  EXPECT_EQ(closest_name("kl_divergance", kNames), "kl_divergence");
  EXPECT_EQ(closest_name("kldiv", kNames), "kl_div");
  EXPECT_EQ(closest_name("vra", kNames), "var");  // two letters exchanged
  EXPECT_EQ(closest_name("HUBER_LOSS", kNames), "huber_loss");
  EXPECT_EQ(closest_name("Hinge", kNames), "hinge_loss");
  constexpr std::string_view columns[] = {"a", "X", "y"};
  EXPECT_EQ(closest_name("Y", columns), "y");
  EXPECT_EQ(closest_name("x", columns), "X");
}

// A typed word may be a whole file by mistake: words of very different lengths are not compared.
TEST(ClosestName, TakesNoTimeForAWholeFile) {
  const std::string file(std::size_t{1} << 24, 'x');
  EXPECT_EQ(closest_name(file, kNames), "");
  EXPECT_EQ(closest_name(file + "huber_loss", kNames), "huber_loss");
}

TEST(ClosestName, SaysNothingWhereNoneIsNear) {
  EXPECT_EQ(closest_name("softmax", kNames), "");
  EXPECT_EQ(closest_name("", kNames), "");
  EXPECT_EQ(did_you_mean("zz", kNames), "");
  constexpr std::string_view columns[] = {"a", "b"};
  EXPECT_EQ(closest_name("w", columns), "");  // no letter in common
  EXPECT_EQ(did_you_mean("hinge", kNames), "; did you mean 'hinge_loss'?");
}

}  // namespace
}  // namespace ebb
