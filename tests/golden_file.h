// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>
#include <source_location>
#include <string>

#include "source_folder.h"

namespace ebb::testing {

// The path of golden/NAME in the calling test's folder.
inline std::string golden_file(const std::string& name,
                               const std::source_location& asker = std::source_location::current()) {
  const std::filesystem::path folder = std::filesystem::path(asker.file_name()).parent_path().filename();
  return (source_folder() / "tests" / folder / "golden" / name).string();
}

}  // namespace ebb::testing
