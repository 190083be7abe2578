// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>

namespace ebb::program {

// --device of a command: cpu, cuda, cuda:N, or auto (the first GPU where there is one, else the CPU). What the command
// computes is computed there.
void add_device_option(CLI::App& command);

}  // namespace ebb::program
