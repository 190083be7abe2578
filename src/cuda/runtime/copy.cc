// SPDX-License-Identifier: MIT
#include "cuda/runtime/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cuda/kernels/args/copy_bytes.h"
#include "cuda/kernels/texts.h"

namespace ebb::cuda {
void copy_bytes(Gpu& gpu, std::span<const CopyCall> copies) {
  constexpr std::size_t kMost = 128;  // 4 KiB of arguments
  for (std::size_t at = 0; at < copies.size(); at += kMost) {
    const std::span<const CopyCall> part = copies.subspan(at, std::min(kMost, copies.size() - at));
    const std::size_t most = std::max<std::size_t>(8, std::bit_ceil(part.size()));
    CopyBytesArgs<kMost> args{static_cast<i64>(part.size()), {}};
    std::size_t largest = 0;
    for (std::size_t k = 0; k < part.size(); ++k) {
      args.of[k] = {static_cast<char*>(part[k].to), static_cast<const char*>(part[k].from),
                    static_cast<i64>(part[k].bytes)};
      largest = std::max(largest, part[k].bytes);
    }
    const std::size_t each =
        std::clamp<std::size_t>(largest / gpu.model().copied_bytes_per_block, 1, gpu.model().most_copying_blocks);
    const KernelSource source{fmt::format("constexpr int kMost = {};\n", most) + texts::copy_bytes};
    const KernelArgs all(args);
    gpu.launch(gpu.kernel(source, "copy_bytes"), static_cast<unsigned>(each * part.size()),
               std::span(all.words()).first(1 + 3 * most));
  }
}

}  // namespace ebb::cuda
