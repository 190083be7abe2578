// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ebb::program {

// The type of such an option, as help and completion name it.
inline constexpr const char* kLossType = "LOSS";

// Adds the name of a loss as an argument; an unknown one is wrong usage, and the message suggests the closest.
CLI::Option* add_loss_name(CLI::App& command, std::string& name);

}  // namespace ebb::program
