// SPDX-License-Identifier: MIT
#include "ebb/optim/registry.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/options.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "expect_error.h"
#include "source_folder.h"

// Optimisers by name.
namespace ebb {
namespace {

struct Line {
  Tensor w = variable(tensor({{0.3, -0.8}, {0.5, 0.1}}, DType::f64)), b = variable(tensor({0.2, -0.4}, DType::f64));
  template <class V>
  void visit(V&& v) {
    v("w", w);
    v("b", b);
  }
  Tensor loss() const { return sum(square(w * b) + square(w - 1) + square(b + 1)); }
};

std::vector<double> after_steps(Optimizer& optimizer) {
  Line line;
  for (int t = 0; t < 12; ++t) optimizer.step(line, backward(line.loss()));
  return cat({flatten(line.w), line.b}).to_vector();
}

template <class Kind, class Options>
void expect_same(const char* name, const OptionValues& values, const Options& options) {
  EXPECT_EQ(after_steps(*make_optimizer(name)), after_steps(*std::make_unique<Kind>())) << name;
  EXPECT_EQ(after_steps(*make_optimizer(name, values)), after_steps(*std::make_unique<Kind>(options))) << name;
}

TEST(OptimizerRegistry, MakesWhatTheConstructorsMake) {
  expect_same<Sgd>("sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1.0}, {"weight_decay", 0.1}},
                   SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  expect_same<Adam>("adam", {{"lr", 0.1}, {"beta1", 0.8}, {"beta2", 0.9}, {"eps", 0.01}, {"amsgrad", 1.0}},
                    AdamOptions{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.9, .eps = 0.01, .amsgrad = true});
  expect_same<AdamW>("adamw", {{"weight_decay", 0.3}}, AdamWOptions{.weight_decay = 0.3});
  expect_same<RAdam>("radam", {{"weight_decay", 0.3}, {"decoupled_weight_decay", 1.0}},
                     RAdamOptions{.weight_decay = 0.3, .decoupled_weight_decay = true});
  expect_same<RMSprop>("rmsprop", {{"alpha", 0.7}, {"momentum", 0.5}, {"centered", 1.0}},
                       RMSpropOptions{.alpha = 0.7, .momentum = 0.5, .centered = true});
  expect_same<Adagrad>("adagrad", {{"lr_decay", 0.2}, {"initial_accumulator_value", 0.4}},
                       AdagradOptions{.lr_decay = 0.2, .initial_accumulator_value = 0.4});
  expect_same<Lion>("lion", {{"beta1", 0.7}, {"beta2", 0.6}}, LionOptions{.beta1 = 0.7, .beta2 = 0.6});
  expect_same<Lars>("lars", {{"trust_coefficient", 0.1}, {"eps", 0.2}},
                    LarsOptions{.trust_coefficient = 0.1, .eps = 0.2});
  expect_same<Lamb>("lamb", {{"eps", 0.1}, {"weight_decay", 0.2}}, LambOptions{.eps = 0.1, .weight_decay = 0.2});
}

// Written out, the registry's defaults are those of the constructors; and every option is passed on.
TEST(OptimizerRegistry, EveryOptionCounts) {
  for (const OptimizerInfo& info : optimizer_registry()) {
    OptionValues defaults;
    for (const OptionInfo& o : info.options) defaults[o.name] = option_from_text(info.name, o, o.default_value);
    EXPECT_EQ(after_steps(*make_optimizer(info.name, defaults)), after_steps(*make_optimizer(info.name))) << info.name;
    for (const OptionInfo& o : info.options) {
      OptionValues values{{"lr", 0.1}};
      if (info.has_option("momentum")) values["momentum"] = 0.5;
      if (info.has_option("weight_decay")) values["weight_decay"] = 0.1;
      if (o.name == "amsgrad") values["beta2"] = 0.3;  // so that an average of squares falls at all
      const std::vector<double> before = after_steps(*make_optimizer(info.name, values));
      const bool flag = o.kind == OptionInfo::Kind::flag;
      values[o.name] = flag ? o.default_value != "true" : o.kind == OptionInfo::Kind::integer ? 3 : 0.3;
      EXPECT_NE(after_steps(*make_optimizer(info.name, values)), before) << info.name << ", " << o.name;
    }
  }
}

TEST(OptimizerRegistry, UnknownNamesAreErrorsWithASuggestion) {
  EXPECT_THROW_MESSAGE(make_optimizer("adamv"), "optimizer: there is no 'adamv'; did you mean 'adamw'?");
  EXPECT_THROW_MESSAGE(make_optimizer("newton"), "optimizer: there is no 'newton'; there are adamw, adam");
  EXPECT_THROW_MESSAGE(make_optimizer("sgd", {{"beta1", 0.9}}), "Sgd: it has no option 'beta1'; it has lr, momentum");
  EXPECT_THROW_MESSAGE(make_optimizer("sgd", {{"lr", "fast"}}), "Sgd: the option lr is a number, got 'fast'");
}

TEST(OptimizerRegistry, HandsTheFilterOfDecayOn) {
  const auto none = [](const std::string&, const Tensor&) { return false; };
  const OptionValues decayed{{"weight_decay", 0.5}}, plain{{"weight_decay", 0.0}};
  for (const OptimizerInfo& info : optimizer_registry()) {
    EXPECT_EQ(after_steps(*make_optimizer(info.name, decayed, none)), after_steps(*make_optimizer(info.name, plain)))
        << info.name;
  }
}

TEST(OptimizerRegistry, TheDocumentationHasARowForEach) {
  std::ifstream file(testing::source_folder() / "docs" / "training.md");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string_view> names;
  for (const OptimizerInfo& info : optimizer_registry()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    const std::size_t begin = text.str().find(fmt::format("\n| `{}` | {} |", info.class_name, info.update));
    ASSERT_NE(begin, std::string::npos) << info.class_name << " has no row in docs/training.md";
    const std::string row = text.str().substr(begin, text.str().find('\n', begin + 1) - begin);
    for (const OptionInfo& o : info.options) {
      EXPECT_NE(row.find(fmt::format("`{} = {}`", o.name, o.default_value)), std::string::npos)
          << info.class_name << " " << o.name << " = " << o.default_value;
    }
  }
}

}  // namespace
}  // namespace ebb
