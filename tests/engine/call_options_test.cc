// SPDX-License-Identifier: MIT
// Options of library calls: values with equality, a key and a line of text.
#include "graph/call_options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calls/alignment.h"
#include "calls/attention.h"
#include "calls/convolution.h"
#include "calls/linear_cross_entropy.h"
#include "calls/multilabel_hinges.h"
#include "calls/order.h"
#include "calls/triangular_solve.h"
#include "ebb/ebb.h"
#include "expect_error.h"

namespace ebb {
namespace {

std::vector<std::uint64_t> key_of(const OptionsPtr& options) {
  std::vector<std::uint64_t> words;
  options->append_key(words);
  return words;
}

// Changes each field in turn: equality, key and text must see it.
template <class Options>
void expect_fields_count(const std::vector<Options>& changed) {
  const OptionsPtr usual = make_options(Options());
  EXPECT_TRUE(usual->equals(*make_options(Options())));
  EXPECT_EQ(usual->hash(), make_options(Options())->hash());
  EXPECT_EQ(usual->print(), "");
  for (const Options& c : changed) {
    const OptionsPtr options = make_options(c);
    EXPECT_FALSE(options->equals(*usual)) << options->print();
    EXPECT_NE(key_of(options), key_of(usual)) << options->print();
    EXPECT_NE(options->hash(), usual->hash()) << options->print();
    EXPECT_NE(options->print(), "");
    EXPECT_EQ(key_of(options).size(), key_of(usual).size());
  }
}

TEST(CallOptions, EveryFieldCounts) {
  expect_fields_count<ConvCall>({{.stride = {2, 1}}, {.padding = {0, 1}}, {.dilation = {3, 1}}, {.groups = 2}});
  expect_fields_count<PoolCall>({{.conv = {.stride = {1, 2}}, .window = {1, 1}},
                                 {.conv = {}, .window = {1, 2}},
                                 {.conv = {}, .each_tap = true},
                                 {.conv = {}, .adaptive = true}});
  expect_fields_count<ArgsortCall>({{.descending = true}, {.first = 3}, {.count = 5}});
  expect_fields_count<SearchsortedCall>({{.right = true}});
  expect_fields_count<TriangularSolveCall>({{.upper = true}, {.transposed = true}, {.unit_diagonal = true}});
  expect_fields_count<AttentionCall>({{.scale = 0.5}, {.causal = true}, {.mask = true}, {.documents = true}});
  expect_fields_count<AlignmentCall>({{.order = 1}, {.blank = 3}, {.zero_infinity = true}});
  expect_fields_count<TokenStatisticsCall>({{.factor = 2}, {.chunk = 64}, {.entropy = true}, {.argmax = true}});
  expect_fields_count<LinearCrossEntropyCall>({{.ignore_index = -1},
                                               {.label_smoothing = 0.1},
                                               {.z_loss = 1e-4},
                                               {.softcap = 30},
                                               {.chunk = 64},
                                               {.cotangent = true},
                                               {.bias = true},
                                               {.weight = true},
                                               {.input_gradient = true},
                                               {.head_gradient = true},
                                               {.bias_gradient = true},
                                               {.round_logits = true},
                                               {.round_sums = true}});
  EXPECT_FALSE(make_options(ConvCall())->equals(*make_options(AttentionCall())));
}

TEST(CallOptions, ArePrinted) {
  EXPECT_EQ(make_options(ConvCall{.stride = {2, 1}, .groups = 4})->print(), "stride=(2, 1) groups=4");
  EXPECT_EQ(make_options(AttentionCall{.scale = 0.5, .causal = true})->print(), "scale=0.5 causal=true");
}

TEST(CallOptions, AreShownWithTheSchedule) {
  const Tensor x = ones({1, 2, 8, 8}).eval(), w = ones({4, 2, 3, 3}).eval();
  const std::string text = print_schedule({conv2d(x, w, {}, {.stride = 2, .padding = 1})});
  EXPECT_NE(text.find("call convolution f32[1, 2, 8, 8] f32[4, 2, 3, 3] -> f32[1, 4, 4, 4] stride=(2, 2) "
                      "padding=(1, 1)\n"),
            std::string::npos)
      << text;
}

// Two calls that differ only in options are two plans; equal ones are one call.
TEST(CallOptions, ArePartOfThePlan) {
  const Tensor x = rand({1, 1, 9, 9}).eval(), w = rand({1, 1, 3, 3}).eval();
  const auto calls = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("call convolution", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const Tensor a = conv2d(x, w, {}, {.dilation = 2}), b = conv2d(x, w, {}, {.dilation = 2}),
               c = conv2d(x, w, {}, {.padding = 1, .dilation = 3});
  EXPECT_EQ(a.shape(), c.shape());
  EXPECT_EQ(calls(print_schedule({a, b})), 1u);
  EXPECT_EQ(calls(print_schedule({a, c})), 2u);
  EXPECT_NE(sum(a).item<float>(), sum(c).item<float>());
}

TEST(CallOptions, OfAnotherTypeAreRefused) {
  EXPECT_THROW(options_as<AttentionCall>(with_options(ConvCall())), Error);
  EXPECT_THROW(options_as<AttentionCall>(Attrs()), Error);
}

// Computes only losses, derived from a call that also computes gradients.
TEST(CallOptions, OfTheFirstOutputAlone) {
  EXPECT_FALSE(make_options(AlignmentCall{.order = 2})->first_output(6));
  EXPECT_FALSE(make_options(MultilabelHingesCall())->first_output(2));
  EXPECT_EQ(make_options(MultilabelHingesCall())->first_output(3)->inputs, (std::vector<std::size_t>{0, 1}));
  const auto alone = make_options(AlignmentCall{.order = 1, .blank = 5})->first_output(5);
  EXPECT_TRUE(alone->options->equals(*make_options(AlignmentCall{.blank = 5})));
  const auto rows =
      make_options(LinearCrossEntropyCall{.softcap = 3, .cotangent = true, .weight = true, .head_gradient = true})
          ->first_output(5);
  EXPECT_EQ(rows->inputs, (std::vector<std::size_t>{0, 1, 2, 4}));
  EXPECT_TRUE(rows->options->equals(*make_options(LinearCrossEntropyCall{.softcap = 3, .weight = true})));
}

}  // namespace
}  // namespace ebb
