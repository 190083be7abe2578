// SPDX-License-Identifier: MIT
#include "text_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ebb/memory.h"
#include "ebb/ops.h"
#include "ebb/random.h"

// Compares the network that stores keys and values with the one that reads its window anew.
namespace ebb::program {
namespace {

constexpr std::int64_t kContext = 12;

Gpt small_gpt() {
  RunConfig c;
  c.model = "gpt";
  c.width = 16;
  c.layers = 2;
  c.heads = 2;
  c.context = kContext;
  manual_seed(5);
  Gpt gpt(c, DataFacts{});
  for (const Parameter& p : parameters(gpt)) *p.tensor = variable(randn(p.tensor->shape()) * 0.3);
  set_training(gpt, false);
  return gpt;
}

std::vector<double> logits_of_window(Gpt& gpt, const std::vector<std::int64_t>& window) {
  const auto n = static_cast<std::int64_t>(window.size());
  const Tensor h = gpt(from_data(window, {1, n}));
  return matmul(h.slice(0, n - 1, n), t(gpt.head.weight)).to_vector();
}

TEST(TextReader, GivesTheLogitsOfTheWholeWindow) {
  Gpt gpt = small_gpt();
  TextReader reader(gpt, kContext);
  std::vector<std::int64_t> text{3, 1, 4};
  std::vector<double> logits = reader.begin(text);
  for (int k = 0; k < 40; ++k) {
    const std::vector<double> expected = logits_of_window(gpt, reader.window());
    ASSERT_EQ(logits.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(logits[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i]))) << k << " " << i;
    }
    text.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
    logits = reader.next(text.back());
    // The context is the end of the text, never less than half a window once there is as much.
    const std::vector<std::int64_t>& window = reader.window();
    ASSERT_LE(window.size(), static_cast<std::size_t>(kContext));
    ASSERT_GE(window.size(), std::min<std::size_t>(text.size(), kContext / 2));
    ASSERT_TRUE(std::equal(window.begin(), window.end(), text.end() - static_cast<std::ptrdiff_t>(window.size())));
  }
}

TEST(TextReader, MemoryDoesNotGrowWithTheText) {
  TextReader reader(small_gpt(), kContext);
  reader.begin({1});
  std::size_t early = 0;
  for (int k = 0; k < 300; ++k) {
    reader.next(k % 200);
    if (k == 60) early = memory_stats().live;
  }
  EXPECT_LE(memory_stats().live, early + 4096);
}

}  // namespace
}  // namespace ebb::program
