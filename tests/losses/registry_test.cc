// SPDX-License-Identifier: MIT
#include "ebb/losses/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "source_folder.h"

namespace ebb {
namespace {

std::string page() {
  std::ifstream file(testing::source_folder() / "docs" / "losses.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One line: the page wraps its own.
std::string joined(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') c = ' ';
    if (c == ' ' && !out.empty() && out.back() == ' ') continue;
    out += c;
  }
  return out;
}

TEST(LossRegistry, TheDocumentationSaysWhatItSays) {
  const std::string text = page();
  ASSERT_FALSE(text.empty());
  for (const LossInfo& loss : loss_registry()) {
    const std::string heading = fmt::format("\n### {}\n", loss.name);
    const std::size_t begin = text.find(heading);
    ASSERT_NE(begin, std::string::npos) << loss.name << " has no section in docs/losses.md";
    const std::size_t end = text.find("\n##", begin + heading.size());
    const std::string section = joined(text.substr(begin, end - begin));
    EXPECT_NE(section.find(joined(loss.formula)), std::string::npos) << loss.name << ": " << loss.formula;
    for (const LossOption& o : loss.options) {
      const std::string option = fmt::format("`{} = {}`: {}", o.name, o.default_value, o.meaning);
      EXPECT_NE(section.find(option), std::string::npos) << loss.name << " " << option;
    }
    for (const LossInput& i : loss.inputs) {
      EXPECT_NE(section.find(fmt::format("`{}`", i.name)), std::string::npos) << loss.name << " " << i.name;
    }
    for (const char* part : {"**Gradient**", "**Use it for**", "**Mind**"}) {
      EXPECT_NE(section.find(part), std::string::npos) << loss.name << " " << part;
    }
  }
}

TEST(LossRegistry, NamesAreUniqueAndOptionalInputsComeLast) {
  std::set<std::string_view> names;
  for (const LossInfo& loss : loss_registry()) {
    EXPECT_TRUE(names.insert(loss.name).second) << loss.name;
    EXPECT_FALSE(loss.family.empty() || loss.formula.empty() || loss.inputs.empty()) << loss.name;
    bool optional = false;
    for (const LossInput& i : loss.inputs) {
      EXPECT_TRUE(i.optional || !optional) << loss.name << " " << i.name;
      optional = i.optional;
    }
  }
  EXPECT_EQ(loss_info("mse_loss").docs(), "docs/losses.md#mse_loss");
}

TEST(LossRegistry, CallsTheFunctionWithItsOptions) {
  const Tensor x = tensor({0.0, 3.0}), t = tensor({0.0, 0.0});
  EXPECT_EQ(evaluate_loss("huber_loss", {x, t}).item(), huber_loss(x, t).item());
  EXPECT_EQ(evaluate_loss("huber_loss", {x, t}, {{"delta", 2.0}, {"reduction", "sum"}}).item(), 4);
  EXPECT_EQ(evaluate_loss("mse_loss", {x, t, tensor({1.0, 3.0})}).item(), 27.0 / 4);
}

TEST(LossRegistry, TakesInputsByName) {
  const Tensor x = tensor({0.0, 3.0}), t = tensor({0.0, 0.0}), q = tensor({2.0, 2.0});
  const Tensor by_name =
      call_loss("binary_cross_entropy_with_logits", {{"pos_weight", q}, {"target", t}, {"input", x}});
  EXPECT_EQ(by_name.item(), binary_cross_entropy_with_logits(x, t, {.pos_weight = q}).item());
  EXPECT_THROW_MESSAGE(call_loss("mse_loss", {{"input", x}}), "mse_loss: the input target is missing");
  EXPECT_THROW_MESSAGE(call_loss("mse_loss", {{"input", x}, {"targets", t}}),
                       "mse_loss: it has no input 'targets'; it has input, target, weight");
  EXPECT_THROW_MESSAGE(evaluate_loss("mse_loss", {x, Tensor()}), "mse_loss: the input target is missing");
}

TEST(LossRegistry, ReadsOptionsFromText) {
  EXPECT_EQ(std::get<double>(loss_option_from_text("huber_loss", "delta", "2.5")), 2.5);
  EXPECT_EQ(std::get<double>(loss_option_from_text("kl_div", "log_target", "true")), 1);
  EXPECT_EQ(std::get<std::string>(loss_option_from_text("huber_loss", "reduction", "sum")), "sum");
  EXPECT_THROW_MESSAGE(loss_option_from_text("huber_loss", "delta", "2,5"), "the option delta is a number, got '2,5'");
  EXPECT_THROW_MESSAGE(loss_option_from_text("huber_loss", "beta", "1"), "it has no option 'beta'; it has delta");
}

// A long list in the batch changes nothing for the others.
TEST(MultilabelMargin, ShortAndLongListsAgree) {
  const std::int64_t c = 12;
  std::vector<std::int64_t> lists(3 * c, -1);
  lists[0] = 3, lists[1] = 7, lists[c] = 11;
  for (std::int64_t k = 0; k < 10; ++k) lists[static_cast<std::size_t>(2 * c + k)] = k;
  const Tensor target = from_data(lists, {3, c}), x = randn({3, c}, DType::f64).eval();
  const Tensor both = variable(x), few = variable(narrow(x, 0, 0, 2));
  const LossOptions none{.reduction = Reduction::none};
  const Tensor long_loss = multilabel_margin_loss(both, target, none);
  const Tensor short_loss = multilabel_margin_loss(few, narrow(target, 0, 0, 2), none);
  EXPECT_TRUE(allclose(narrow(long_loss, 0, 0, 2), short_loss, {.rtol = 1e-13}));
  const Tensor g_long = backward(sum(long_loss))[both], g_short = backward(sum(short_loss))[few];
  EXPECT_TRUE(allclose(narrow(g_long, 0, 0, 2), g_short, {.rtol = 1e-13}));
  // The long row by plain loops: its targets are 0..9, the others 10 and 11.
  const std::vector<double> v = x.to_vector();
  double expected = 0;
  for (std::size_t j = 0; j < 10; ++j) {
    for (std::size_t i : {10u, 11u}) expected += std::max(0.0, 1 - v[24 + j] + v[24 + i]) / 12;
  }
  EXPECT_NEAR(long_loss.to_vector()[2], expected, 1e-12);
}

}  // namespace
}  // namespace ebb
