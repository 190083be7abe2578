// SPDX-License-Identifier: MIT
#pragma once
#include <cstdlib>
#include <string_view>

namespace ebb::testing {

// Is the default device of this run a GPU, or an emulated one: do the kernels of src/cuda run? (See main.cc.)
inline bool on_gpu() {
  const char* const named = std::getenv("EBB_TEST_DEVICE");
  return named && (std::string_view(named) == "cuda" || std::string_view(named) == "emulated");
}

// Only an emulated one, on which kernels take a thousand times as long?
inline bool on_emulated_gpu() {
  const char* const named = std::getenv("EBB_TEST_DEVICE");
  return named && std::string_view(named) == "emulated";
}

}  // namespace ebb::testing
