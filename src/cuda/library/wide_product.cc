// SPDX-License-Identifier: MIT
#include "cuda/library/wide_product.h"

#include <algorithm>

namespace ebb::cuda {
namespace {

using Tile = WideTile;

TensorMap factor_map(const void* data, std::int64_t rows, std::int64_t columns, int high) {
  TensorMap map{};
  const std::uint64_t sizes[] = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  const std::uint64_t steps[] = {static_cast<std::uint64_t>(columns) * 2};
  const std::uint32_t box[] = {Tile::kBlockK, static_cast<std::uint32_t>(high)}, each[] = {1, 1};
  check(driver().encode_tiles(&map, kMapBf16, 2, const_cast<void*>(data), sizes, steps, box, each, 0, kMapSwizzle128,
                              kMapPromote256, 0),
        "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace

bool can_be_wide(const Gpu& gpu, const WideFactors& f, unsigned shared_bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // the kernels count in 32 bits
  const auto bits = reinterpret_cast<std::uintptr_t>(f.x) | reinterpret_cast<std::uintptr_t>(f.head);
  return gpu.architecture() == "sm_90" && driver().encode_tiles &&
         gpu.limits().shared >= static_cast<int>(shared_bytes) && gpu.multiprocessors() >= 2 && bits % 16 == 0 &&
         f.width % 8 == 0 && f.width > 0 && f.rows < kMost && f.classes < kMost && f.width < kMost;
}

WideProductArgs wide_product_args(const WideFactors& f) {
  return {.x = factor_map(f.x, f.rows, f.width, Tile::kRows),
          .w = factor_map(f.head, f.classes, f.width, Tile::kColumns / 2),
          .rows = f.rows,
          .classes = f.classes,
          .width = f.width,
          .unused = {}};
}

void launch_wide(Gpu& gpu, const KernelSource& source, const char* kernel, const WideFactors& f, const KernelArgs& args,
                 unsigned shared_bytes) {
  const std::int64_t tiles = (f.rows + 2 * Tile::kRows - 1) / (2 * Tile::kRows) * tiles_of(f.classes);
  const std::int64_t clusters = std::min<std::int64_t>(tiles, gpu.multiprocessors() / 2);
  gpu.launch(gpu.kernel(source, kernel), static_cast<unsigned>(2 * clusters), args.words(), Tile::kThreads,
             shared_bytes);
}

}  // namespace ebb::cuda
