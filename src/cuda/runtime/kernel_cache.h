// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace ebb::cuda {

// Machine code for a text (without the prelude), compiled for an architecture ("sm_90"): from this process, from the
// folder $XDG_CACHE_HOME/ebb/cuda (~/.cache/ebb/cuda), or from NVRTC. May be called by several threads. The folder is
// used where it is the user's alone, files are checked, and those used last are kept up to EBB_CUDA_CACHE_MB (512; 0:
// none).
//
// A text that asks for `spill_blocks` blocks per multiprocessor by BLOCKS(n) (see the prelude) is compiled again for
// fewer, down to two, while registers spill.
std::string machine_code(const std::string& text, const std::string& architecture, int spill_blocks = 0);

// Contents of a file of that folder, if it is this user's, whole and of this key; empty otherwise.
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
