// SPDX-License-Identifier: MIT
#include "core/options.h"

#include <gtest/gtest.h>

#include "expect_error.h"

// How options structs are described and read by name.
namespace ebb {

struct SomeOptions {
  double rate = 1e-3;
  std::int64_t ignore = -100;
  int p = 2;
  bool swap = false;
  double (*only_a_function)(double) = nullptr;
};
template <class V>
void each_option(V& v, SomeOptions& o) {
  v("rate", o.rate, "how fast");
  v("ignore", o.ignore, "what not");
  v("p", o.p, "of the norm");
  v("swap", o.swap, "both ways");
  v.only_in_cpp(o.only_a_function);
}

struct ForgottenOptions {
  double alpha = 1, beta = 2;
};
template <class V>
void each_option(V& v, ForgottenOptions& o) {
  v("alpha", o.alpha, "is there");
}

namespace {

TEST(Options, AreListedWithTheDefaultsOfTheStruct) {
  OptionLister list;
  list_options<OptionLister, SomeOptions>(list, "some");
  ASSERT_EQ(list.options.size(), 4u);
  const std::pair<const char*, const char*> expected[] = {
      {"rate", "1e-3"}, {"ignore", "-100"}, {"p", "2"}, {"swap", "false"}};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(list.options[k].name, expected[k].first);
    EXPECT_EQ(list.options[k].default_value, expected[k].second);
  }
  EXPECT_EQ(list.options[0].kind, OptionInfo::Kind::number);
  EXPECT_EQ(list.options[1].kind, OptionInfo::Kind::integer);
  EXPECT_EQ(list.options[3].kind, OptionInfo::Kind::flag);
}

TEST(Options, AForgottenMemberIsAnError) {
  OptionLister list;
  EXPECT_THROW_MESSAGE((list_options<OptionLister, ForgottenOptions>(list, "forgetful")),
                       "each_option of forgetful names 1 of its 2 options");
}

TEST(Options, AreReadByName) {
  const OptionValues given{{"rate", 0.5}, {"p", 3.0}, {"swap", 1.0}};
  SomeOptions o;
  OptionReader read("some", given);
  each_option(read, o);
  EXPECT_EQ(o.rate, 0.5);
  EXPECT_EQ(o.ignore, -100);
  EXPECT_EQ(o.p, 3);
  EXPECT_TRUE(o.swap);
}

TEST(Options, OfTheWrongKindAreErrors) {
  const auto reading = [](const OptionValues& given) {
    SomeOptions o;
    OptionReader read("some", given);
    each_option(read, o);
  };
  EXPECT_THROW_MESSAGE(reading({{"rate", "fast"}}), "some: the option rate is a number, got 'fast'");
  EXPECT_THROW_MESSAGE(reading({{"ignore", 0.5}}), "some: the option ignore is a whole number below 2³¹, got 0.5");
}

TEST(Options, DefaultsReadAsTheyAreWritten) {
  for (const auto& [value, text] : {std::pair{0.001, "1e-3"},
                                    {1e-8, "1e-8"},
                                    {0.1, "0.1"},
                                    {64.0, "64"},
                                    {0.0, "0"},
                                    {1.0 / 3, "0.3333333333333333"},
                                    {-100.0, "-100"},
                                    {1e10, "1e+10"}}) {
    EXPECT_EQ(text_of_default(value), text);
    EXPECT_EQ(std::stod(text_of_default(value)), value);
  }
}

}  // namespace
}  // namespace ebb
