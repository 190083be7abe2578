#include "ebb/losses/registry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "losses/registry_entries.h"

namespace ebb {
namespace {

std::vector<LossInfo> all_entries() {
  std::vector<LossInfo> all;
  for (auto entries :
       {regression_entries, robust_entries, classification_entries, binary_entries, ranking_entries, margin_entries,
        distance_entries, probabilistic_entries, divergence_entries, segmentation_entries, contrastive_entries,
        alignment_entries, preference_entries, linear_entries}) {
    for (LossInfo& entry : entries()) all.push_back(std::move(entry));
  }
  return all;
}

template <class Items>
std::vector<std::string_view> names_in(const Items& items) {
  std::vector<std::string_view> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

template <class Items>
std::string names_of(const Items& items) {
  return items.empty() ? "none" : fmt::format("{}", fmt::join(names_in(items), ", "));
}

template <class Item>
const Item& named(const std::vector<Item>& items, std::string_view name, std::string_view loss, const char* what) {
  for (const Item& item : items) {
    if (item.name == name) return item;
  }
  fail(Error::Kind::value, "{}: it has no {} '{}'; it has {}", loss, what, name, names_of(items));
}

std::optional<double> number_from(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on") return 1;
  if (text == "false" || text == "no" || text == "off") return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
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

double LossArguments::number(std::string_view option, double otherwise) const {
  const auto it = options_.find(option);
  if (it == options_.end()) return otherwise;
  if (const double* value = std::get_if<double>(&it->second)) return *value;
  fail(Error::Kind::value, "{}: the option {} is a number, got '{}'", loss_, option, std::get<std::string>(it->second));
}

std::int64_t LossArguments::integer(std::string_view option, std::int64_t otherwise) const {
  const double value = number(option, static_cast<double>(otherwise));
  require(std::trunc(value) == value && std::abs(value) < 0x1p31,
          "{}: the option {} is a whole number below 2³¹, got {}", loss_, option, value);
  return static_cast<std::int64_t>(value);
}

std::string LossArguments::text(std::string_view option, std::string_view otherwise) const {
  const auto it = options_.find(option);
  if (it == options_.end()) return std::string(otherwise);
  if (const std::string* value = std::get_if<std::string>(&it->second)) return *value;
  fail(Error::Kind::value, "{}: the option {} is a word, got {}", loss_, option, std::get<double>(it->second));
}

Reduction LossArguments::reduction(Reduction otherwise) const {
  return reduction_from_name(text("reduction", name(otherwise)));
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

const LossInput& LossInfo::input(std::string_view wanted) const { return named(inputs, wanted, name, "input"); }
const LossOption& LossInfo::option(std::string_view wanted) const { return named(options, wanted, name, "option"); }

LossOptionValue loss_option_from_text(std::string_view loss, std::string_view option, std::string_view text) {
  const bool is_word = !number_from(loss_info(loss).option(option).default_value);
  if (is_word) return std::string(text);
  const std::optional<double> number = number_from(text);
  require(number.has_value(), "{}: the option {} is a number, got '{}'", loss, option, text);
  return *number;
}

Tensor evaluate_loss(std::string_view name, const std::vector<Tensor>& inputs, const LossOptionValues& options) {
  const LossInfo& loss = loss_info(name);
  const auto needed =
      std::count_if(loss.inputs.begin(), loss.inputs.end(), [](auto& input) { return !input.optional; });
  require(inputs.size() >= static_cast<std::size_t>(needed) && inputs.size() <= loss.inputs.size(),
          "{}: takes {} inputs ({}), got {}", name, loss.inputs.size(), names_of(loss.inputs), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined() || loss.inputs[i].optional, "{}: the input {} is missing; it takes {}", name,
            loss.inputs[i].name, names_of(loss.inputs));
  }
  for (const auto& [option, value] : options) loss.option(option);
  return loss.evaluate(LossArguments(name, inputs, options));
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
