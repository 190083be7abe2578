// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>

namespace ebb::program {

// The option --device of a command: cpu, cuda, cuda:N, or auto (the first GPU if there is one, else the CPU). The
// command computes there.
void add_device_option(CLI::App& command);

}  // namespace ebb::program
