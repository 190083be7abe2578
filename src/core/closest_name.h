#pragma once
#include <span>
#include <string>
#include <string_view>

namespace ebb {

// The one of the names that was probably meant by a wrong one; empty where none is near.
std::string_view closest_name(std::string_view wrong, std::span<const std::string_view> names);

// "; did you mean 'huber_loss'?", or nothing where none is near.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names);

}  // namespace ebb
