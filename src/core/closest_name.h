// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace ebb {

// The known name closest to an unknown one; empty if none is close.
std::string_view closest_name(std::string_view wrong, std::span<const std::string_view> names);

// "; did you mean 'huber_loss'?", or nothing if none is close.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names);

}  // namespace ebb
