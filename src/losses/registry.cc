// SPDX-License-Identifier: MIT
#include "ebb/losses/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "core/options.h"
#include "losses/describe.h"

namespace ebb {
namespace {

std::vector<LossInfo> all_entries() {
  std::vector<LossInfo> all;
  for (auto entries : {regression_entries, robust_entries, classification_entries, binary_entries, ranking_entries,
                       margin_entries, distance_entries, probabilistic_entries, divergence_entries,
                       segmentation_entries, contrastive_entries, alignment_entries, preference_entries, policy_entries,
                       routing_entries, linear_entries, linear_head_entries, linear_preference_entries}) {
    for (LossInfo& entry : entries()) all.push_back(std::move(entry));
  }
  return all;
}

std::string names_of(const std::vector<LossInput>& inputs) {
  return fmt::format("{}", fmt::join(names_in(inputs), ", "));
}

constexpr std::pair<std::string_view, Reduction> kReductions[] = {
    {"none", Reduction::none}, {"mean", Reduction::mean}, {"sum", Reduction::sum}, {"batchmean", Reduction::batchmean}};

}  // namespace

std::string_view name(Reduction reduction) { return kReductions[static_cast<int>(reduction)].first; }

Reduction reduction_from_name(std::string_view name) {
  for (const auto& [text, reduction] : kReductions) {
    if (text == name) return reduction;
  }
  fail(Error::Kind::value, "reduction: '{}' is not none, mean, sum or batchmean", name);
}

std::span<const LossInfo> loss_registry() {
  static const std::vector<LossInfo> entries = all_entries();
  return entries;
}

const LossInfo& loss_info(std::string_view name) {
  for (const LossInfo& entry : loss_registry()) {
    if (entry.name == name) return entry;
  }
  const std::vector<std::string_view> names = names_in(loss_registry());
  const std::string hint = did_you_mean(name, names);
  require(hint.empty(), "loss: there is no '{}'{}", name, hint);
  fail(Error::Kind::value, "loss: there is no '{}'; there are {}", name, fmt::join(names, ", "));
}

const LossInput& LossInfo::input(std::string_view wanted) const { return find_named(inputs, wanted, name, "input"); }
const LossOption& LossInfo::option(std::string_view wanted) const {
  return find_named(options, wanted, name, "option");
}

LossOptionValue loss_option_from_text(std::string_view loss, std::string_view option, std::string_view text) {
  return option_from_text(loss, loss_info(loss).option(option), text);
}

Tensor evaluate_loss(std::string_view name, const std::vector<Tensor>& inputs, const LossOptionValues& options) {
  const LossInfo& loss = loss_info(name);
  const auto needed =
      std::count_if(loss.inputs.begin(), loss.inputs.end(), [](auto& input) { return !input.optional; });
  if (inputs.size() < static_cast<std::size_t>(needed) || inputs.size() > loss.inputs.size()) {
    fail(Error::Kind::value, "{}: takes {} inputs ({}), got {}", name, loss.inputs.size(), names_of(loss.inputs),
         inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() || loss.inputs[i].optional) continue;
    fail(Error::Kind::value, "{}: the input {} is missing; it takes {}", name, loss.inputs[i].name,
         names_of(loss.inputs));
  }
  for (const auto& [option, value] : options) loss.option(option);
  return loss.evaluate(inputs, options);
}

Tensor call_loss(std::string_view name, const LossInputValues& inputs, const LossOptionValues& options) {
  const LossInfo& loss = loss_info(name);
  for (const auto& [input, tensor] : inputs) loss.input(input);
  std::vector<Tensor> in_order;
  for (const LossInput& input : loss.inputs) {
    const auto it = inputs.find(input.name);
    in_order.push_back(it == inputs.end() ? Tensor() : it->second);
  }
  return evaluate_loss(name, in_order, options);
}

}  // namespace ebb
