// SPDX-License-Identifier: MIT
// Launches of kernels/exponentials.cuh.
#include "cuda/library/exponential_product.h"

#include <algorithm>

#include "cuda/kernels/texts.h"

namespace ebb::cuda {
namespace {

using Tile = ExponentialTile;

TensorMap tensor_map(const void* data, std::int64_t rows, std::int64_t columns, int high) {
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

bool can_make_exponentials(const Gpu& gpu, const ExponentialProduct& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // the kernel counts in 32 bits
  const auto bits = reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.head) |
                    reinterpret_cast<std::uintptr_t>(p.out);
  return gpu.architecture() == "sm_90" && driver().encode_tiles && gpu.limits().shared >= Tile::kSharedBytes &&
         gpu.multiprocessors() >= 2 && bits % 16 == 0 && p.width % 8 == 0 && p.width > 0 && p.step % 8 == 0 &&
         p.rows < kMost && p.classes < kMost && p.width < kMost;
}

KernelSource exponentials_source() { return {texts::exponentials, true, true}; }

void make_exponentials(Gpu& gpu, const ExponentialProduct& p) {
  const ExponentialsArgs args{.x = tensor_map(p.x, p.rows, p.width, Tile::kRows),
                              .w = tensor_map(p.head, p.classes, p.width, Tile::kColumns / 2),
                              .out = static_cast<u16*>(p.out),
                              .reference = static_cast<const f32*>(p.reference),
                              .chosen = static_cast<const i32*>(p.chosen),
                              .own = static_cast<f32*>(p.own),
                              .parts = static_cast<f32*>(p.parts),
                              .rows = p.rows,
                              .classes = p.classes,
                              .step = p.step,
                              .width = p.width};
  const std::int64_t tiles = (p.rows + 2 * Tile::kRows - 1) / (2 * Tile::kRows) * tiles_of(p.classes);
  const std::int64_t clusters = std::min<std::int64_t>(tiles, gpu.multiprocessors() / 2);
  gpu.launch(gpu.kernel(exponentials_source(), "exponentials"), static_cast<unsigned>(2 * clusters),
             KernelArgs(args).words(), Tile::kThreads, Tile::kSharedBytes);
}

}  // namespace ebb::cuda
