// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>
#include <vector>

#include "core/options.h"
#include "ebb/optim/registry.h"

// The description of an optimiser, next to its formula: its options struct by each_option(), the rest by describe().
namespace ebb::optim {

template <class Kind, class Options>
OptimizerInfo describe(std::string_view name, std::string_view class_name, std::string_view update) {
  OptionLister list;
  list_options<OptionLister, Options>(list, name);
  const auto make = [class_name](const OptionValues& values, const DecayFilter& decays) -> std::unique_ptr<Optimizer> {
    Options options;
    OptionReader read(class_name, values);
    each_option(read, options);
    options.decays = decays;
    return std::make_unique<Kind>(options);
  };
  return {name, class_name, update, std::move(list.options), make};
}

// The entries by file; optimizer_registry() is all of them.
std::vector<OptimizerInfo> adaptive_entries();
std::vector<OptimizerInfo> sgd_entries();
std::vector<OptimizerInfo> layerwise_entries();

// Descriptions of options shared by several optimisers.
inline constexpr const char* kRate = "the learning rate";
inline constexpr const char* kMomentum = "how much of the last step goes on";
inline constexpr const char* kBeta1 = "how much of the average gradient stays at each step";
inline constexpr const char* kBeta2 = "how much of the average squared gradient stays at each step";
inline constexpr const char* kEps = "added to what the step is divided by";
inline constexpr const char* kDecay = "how strongly parameters are pulled to 0";

}  // namespace ebb::optim
