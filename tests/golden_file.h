// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>
#include <source_location>
#include <string>

namespace ebb::testing {

// The path of golden/NAME in the calling test's folder.
inline std::string golden_file(const std::string& name,
                               const std::source_location& asker = std::source_location::current()) {
  return (std::filesystem::path(asker.file_name()).parent_path() / "golden" / name).string();
}

}  // namespace ebb::testing
