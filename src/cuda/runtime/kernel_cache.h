// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace ebb::cuda {

// Machine code for a text (without the prelude), compiled for an architecture ("sm_90"): from this process, from the
// folder $XDG_CACHE_HOME/ebb/cuda (~/.cache/ebb/cuda), or from NVRTC. Thread-safe. The folder is used only if it
// belongs to the user alone, files are verified, and the most recently used are kept up to EBB_CUDA_CACHE_MB (512; 0:
// none).
//
// A text that requests `spill_blocks` blocks per multiprocessor by BLOCKS(n) (see the prelude) is recompiled for fewer,
// down to two, while registers spill.
std::string machine_code(const std::string& text, const std::string& architecture, int spill_blocks = 0);

// Contents of a file of that folder, if it is this user's, complete and of this key; empty otherwise.
struct KernelKey {
  std::uint64_t low = 0, high = 0;
};
std::string read_kernel_file(const std::filesystem::path& path, KernelKey key);

struct CompileStats {
  long compiled = 0, from_disk = 0;
  double seconds = 0;  // spent compiling
};
CompileStats compile_stats();

}  // namespace ebb::cuda
