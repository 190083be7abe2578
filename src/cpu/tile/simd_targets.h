// SPDX-License-Identifier: MIT
// Which Highway targets are compiled. Include before any Highway header.
// SVE's vectors have no size at compile time; SSSE3 and AVX3_DL would add code for machines that SSE4 and AVX3 cover.
#ifndef EBB_CPU_SIMD_TARGETS_H_
#define EBB_CPU_SIMD_TARGETS_H_
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_SSSE3 | HWY_AVX3_DL)
#endif
