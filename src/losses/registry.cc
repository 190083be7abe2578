#include "ebb/losses/registry.h"

#include <algorithm>

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
std::string names_of(const Items& items) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += item.name;
  }
  return text.empty() ? "none" : text;
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
  fail(Error::Kind::value, "loss: there is no '{}'; there are {}", name, names_of(loss_registry()));
}

Tensor evaluate_loss(std::string_view name, const std::vector<Tensor>& inputs, const LossOptionValues& options) {
  const LossInfo& loss = loss_info(name);
  const auto needed =
      std::count_if(loss.inputs.begin(), loss.inputs.end(), [](auto& input) { return !input.optional; });
  require(inputs.size() >= static_cast<std::size_t>(needed) && inputs.size() <= loss.inputs.size(),
          "{}: takes {} inputs ({}), got {}", name, loss.inputs.size(), names_of(loss.inputs), inputs.size());
  for (const auto& [option, value] : options) {
    const bool known = std::any_of(loss.options.begin(), loss.options.end(), [&](auto& o) { return o.name == option; });
    require(known, "{}: it has no option '{}'; it has {}", name, option, names_of(loss.options));
  }
  return loss.evaluate(LossArguments(name, inputs, options));
}

}  // namespace ebb
