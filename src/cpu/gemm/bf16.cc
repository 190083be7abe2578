#include "cpu/gemm/bf16.h"

#include <atomic>

namespace ebb::cpu {
namespace {

std::atomic<bool> allowed{true};

const GemmBf16Tiles* best_tiles() {
#if defined(__aarch64__)
  return gemm_bf16_tiles_arm64();
#elif defined(__x86_64__)
  return gemm_bf16_tiles_x86_64();
#else
  return nullptr;
#endif
}

}  // namespace

const GemmBf16Tiles* gemm_bf16_tiles() {
  static const GemmBf16Tiles* const tiles = best_tiles();
  return allowed.load(std::memory_order_relaxed) ? tiles : nullptr;
}

const GemmVectors<float>* gemm_bf16_vectors() {
#if EBB_HAS_BFMMLA
  return gemm_bf16_tiles() ? &kGemmBf16VectorsArm64 : nullptr;
#else
  return nullptr;
#endif
}

void allow_gemm_bf16_tiles(bool yes) { allowed.store(yes, std::memory_order_relaxed); }

}  // namespace ebb::cpu
