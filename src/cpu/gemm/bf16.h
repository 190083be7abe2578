// SPDX-License-Identifier: MIT
#pragma once
#include "cpu/gemm/kernels.h"

// Products of two bf16 factors by dedicated instructions: BFMMLA on aarch64, TDPBF16PS (AMX) or VDPBF16PS on x86-64.
// One does the work of four, 512 or two fused multiply-adds of vectors.
//
// An output is still a sum of blocks of k added in order, and still depends only on its row and its column; but inside
// a block the step is a group of k (4, 32 or 2), padded with zeros, and the instruction decides how a group is added:
// products are exact; BFMMLA and VDPBF16PS add two, on aarch64 rounded to odd and not to nearest (an error of one unit
// in the last place of f32 instead of a half, for half as many additions); TDPBF16PS adds the 16 even and the 16 odd
// ones, each in order, and then both. Numbers below 2^-126 count as zero, including results. NaN and infinities behave
// as usual.
//
// VDPBF16PS is used on AMD's processors only: Intel's have half as many units for it as for f32, and on Sapphire Rapids
// a product took 1.4 times as long as in f32.
namespace ebb::cpu {

using GemmBf16Tiles = GemmTiles<float, BFloat16>;

// Null where the processor has no such instructions: the factors then become f32 while they are packed.
const GemmBf16Tiles* gemm_bf16_tiles();

// For tests: disables or re-enables them; or selects these, or (null) the best again.
void allow_gemm_bf16_tiles(bool allowed);
void force_gemm_bf16_tiles(const GemmBf16Tiles* tiles);

// Products of one row or column that need no panels. Null: they use panels, like any other.
const GemmVectors<float>* gemm_bf16_vectors();

// The machine's implementations, or null. Each is compiled for its own architecture only.
const GemmBf16Tiles* gemm_bf16_tiles_arm64();
const GemmBf16Tiles* gemm_bf16_tiles_amx();
const GemmBf16Tiles* gemm_bf16_tiles_vdpbf16ps();
extern const GemmVectors<float> kGemmBf16VectorsArm64;

// BFMMLA needs a compiler that has it: g++ in any function of that target, clang++ 14 only where the whole build is for
// such processors.
#if defined(__aarch64__) && defined(__linux__) && (!defined(__clang__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC))
#define EBB_HAS_BFMMLA 1
#else
#define EBB_HAS_BFMMLA 0
#endif

}  // namespace ebb::cpu
