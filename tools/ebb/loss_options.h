// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "ebb/losses/registry.h"

namespace CLI {
class App;
}

namespace ebb::program {

// `--option NAME=VALUE`, repeatable.
void add_loss_options(CLI::App& command, std::vector<std::string>& options);

// The loss's option values from such words; unknown options are wrong usage.
LossOptionValues loss_options(const std::string& loss, const std::vector<std::string>& options);

}  // namespace ebb::program
