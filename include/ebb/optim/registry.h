// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ebb/optim/optimizer.h"
#include "ebb/options.h"

// Every optimiser described once: the command line, bindings and documentation read it from here. Names and defaults of
// options are those of the options structs.
namespace ebb {
inline namespace optim {

struct OptimizerInfo {
  std::string_view name;        // "adamw", for the command line and for files
  std::string_view class_name;  // "AdamW"
  std::string_view update;      // one step of a parameter p with gradient g, as text
  std::vector<OptionInfo> options;
  std::function<std::unique_ptr<Optimizer>(const OptionValues& options, const DecayFilter& decays)> make;
  bool has_option(std::string_view name) const;
  const OptionInfo& option(std::string_view name) const;  // throws Error listing the available options
};

std::span<const OptimizerInfo> optimizer_registry();
const OptimizerInfo& optimizer_info(std::string_view name);  // throws Error with the closest name, or all names

// make_optimizer("adamw", {{"lr", 3e-4}, {"beta2", 0.95}}, decay_matrices); unknown names and options are Errors.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptionValues& options = {},
                                          const DecayFilter& decays = {});

}  // namespace optim
}  // namespace ebb
