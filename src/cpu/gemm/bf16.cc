// SPDX-License-Identifier: MIT
#include "cpu/gemm/bf16.h"

#include <atomic>

namespace ebb::cpu {
namespace {

std::atomic<bool> allowed{true};
std::atomic<const GemmBf16Tiles*> forced{nullptr};

const GemmBf16Tiles* best_tiles() {
#if defined(__aarch64__)
  return gemm_bf16_tiles_arm64();
#elif defined(__x86_64__)
  if (const GemmBf16Tiles* tiles = gemm_bf16_tiles_amx()) return tiles;
  return __builtin_cpu_is("amd") ? gemm_bf16_tiles_vdpbf16ps() : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace

const GemmBf16Tiles* gemm_bf16_tiles() {
  static const GemmBf16Tiles* const tiles = best_tiles();
  if (!allowed.load(std::memory_order_relaxed)) return nullptr;
  const GemmBf16Tiles* instead = forced.load(std::memory_order_relaxed);
  return instead ? instead : tiles;
}

const GemmVectors<float>* gemm_bf16_vectors() {
#if EBB_HAS_BFMMLA
  return gemm_bf16_tiles() ? &kGemmBf16VectorsArm64 : nullptr;
#else
  return nullptr;
#endif
}

void allow_gemm_bf16_tiles(bool yes) { allowed.store(yes, std::memory_order_relaxed); }

void force_gemm_bf16_tiles(const GemmBf16Tiles* tiles) { forced.store(tiles, std::memory_order_relaxed); }

}  // namespace ebb::cpu
