// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/closest_name.h"

namespace ebb::program {

inline std::string not_one_of(const std::string& value, const std::vector<std::string>& choices) {
  const std::vector<std::string_view> views(choices.begin(), choices.end());
  return fmt::format("'{}' is not one of {}{}", value, fmt::join(choices, ", "), did_you_mean(value, views));
}

// Help shows the choices, and an unknown word gets the nearest one suggested.
inline CLI::Validator one_of(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [choices](std::string& value) {
        const bool known = std::find(choices.begin(), choices.end(), value) != choices.end();
        return known ? std::string() : not_one_of(value, choices);
      },
      fmt::format("{{{}}}", fmt::join(choices, ",")));
}

}  // namespace ebb::program
