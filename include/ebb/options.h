// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

// Programmatic access to the options of losses and optimisers: by name, with defaults and values as numbers or strings.
// Both registries (ebb/losses/registry.h, ebb/optim/registry.h) read them from the options structs.
namespace ebb {

struct OptionInfo {
  enum class Kind { number, integer, flag, word };
  std::string name;
  std::string default_value;  // as text: "0.1", "-100", "false", "mean"
  std::string meaning;
  Kind kind = Kind::number;
};

using OptionValue = std::variant<double, std::string>;  // flags are 0 and 1
using OptionValues = std::map<std::string, OptionValue, std::less<>>;

}  // namespace ebb
