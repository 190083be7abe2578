// SPDX-License-Identifier: MIT
#include "ebb/optim/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/closest_name.h"
#include "optim/describe.h"

namespace ebb::optim {
namespace {

std::vector<OptimizerInfo> all_entries() {
  std::vector<OptimizerInfo> all;
  for (auto entries : {adaptive_entries, sgd_entries, layerwise_entries}) {
    for (OptimizerInfo& entry : entries()) all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace

bool OptimizerInfo::has_option(std::string_view wanted) const {
  return std::any_of(options.begin(), options.end(), [&](const OptionInfo& o) { return o.name == wanted; });
}
const OptionInfo& OptimizerInfo::option(std::string_view wanted) const {
  return find_named(options, wanted, class_name, "option");
}

std::span<const OptimizerInfo> optimizer_registry() {
  static const std::vector<OptimizerInfo> entries = all_entries();
  return entries;
}

const OptimizerInfo& optimizer_info(std::string_view name) {
  for (const OptimizerInfo& entry : optimizer_registry()) {
    if (entry.name == name) return entry;
  }
  const std::vector<std::string_view> names = names_in(optimizer_registry());
  const std::string hint = did_you_mean(name, names);
  require(hint.empty(), "optimizer: there is no '{}'{}", name, hint);
  fail(Error::Kind::value, "optimizer: there is no '{}'; there are {}", name, fmt::join(names, ", "));
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptionValues& options,
                                          const DecayFilter& decays) {
  const OptimizerInfo& info = optimizer_info(name);
  for (const auto& [option, value] : options) info.option(option);
  return info.make(options, decays);
}

}  // namespace ebb::optim
