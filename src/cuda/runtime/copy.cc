#include "cuda/runtime/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ebb::cuda {
namespace {

// Blocks take turns among the copies; `most` is how many there can be.
std::string copy_text(std::size_t most) {
  return fmt::format(R"cuda(struct Copy {{
  char* to;
  const char* from;
  i64 bytes;
}};
struct Args {{
  i64 count;
  Copy of[{}];
}};
)cuda",
                     most) +
         R"cuda(extern "C" __global__ void __launch_bounds__(256) copy_bytes(const Args a) {
  const i64 k = blockIdx.x % (unsigned)a.count, first = (i64)(blockIdx.x / (unsigned)a.count) * 256 + threadIdx.x;
  const i64 step = (i64)(gridDim.x / (unsigned)a.count) * 256;
  char* const to = a.of[k].to;
  const char* const from = a.of[k].from;
  const i64 bytes = a.of[k].bytes, words = (((u64)to | (u64)from) & 7) == 0 ? bytes / 8 : 0;
  for (i64 i = first; i < words; i += step) ((u64*)to)[i] = ((const u64*)from)[i];
  for (i64 i = words * 8 + first; i < bytes; i += step) to[i] = from[i];
}
)cuda";
}

}  // namespace

void copy_bytes(Gpu& gpu, std::span<const CopyCall> copies) {
  constexpr std::size_t kMost = 128;  // 4 KiB of arguments
  constexpr std::size_t kBytesPerBlock = 256 * 8 * 8;
  for (std::size_t at = 0; at < copies.size(); at += kMost) {
    const std::span<const CopyCall> part = copies.subspan(at, std::min(kMost, copies.size() - at));
    const std::size_t most = std::max<std::size_t>(8, std::bit_ceil(part.size()));
    std::vector<std::uint64_t> words(1 + 3 * most);
    words[0] = part.size();
    std::size_t largest = 0;
    for (std::size_t k = 0; k < part.size(); ++k) {
      words[1 + 3 * k] = reinterpret_cast<std::uintptr_t>(part[k].to);
      words[2 + 3 * k] = reinterpret_cast<std::uintptr_t>(part[k].from);
      words[3 + 3 * k] = part[k].bytes;
      largest = std::max(largest, part[k].bytes);
    }
    const std::size_t each = std::clamp<std::size_t>(largest / kBytesPerBlock, 1, 512);
    gpu.launch(gpu.kernel(copy_text(most), "copy_bytes"), static_cast<unsigned>(each * part.size()), words);
  }
}

}  // namespace ebb::cuda
