// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>

namespace ebb::testing {

// The root of the source tree. __FILE__ does not tell where it is: compiler caches and -ffile-prefix-map shorten it.
std::filesystem::path source_folder();

}  // namespace ebb::testing
