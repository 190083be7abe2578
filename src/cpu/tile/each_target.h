// SPDX-License-Identifier: MIT
#pragma once
#include <hwy/highway.h>

// EBB_EACH_TARGET(X) is X(AVX3) X(AVX2)... for every SIMD target that is compiled, best first: HWY_NAME is its bit and
// N_NAME its namespace. Include after simd_targets.h.
#if HWY_TARGETS & HWY_AVX3
#define EBB_WITH_AVX3(X) X(AVX3)
#else
#define EBB_WITH_AVX3(X)
#endif
#if HWY_TARGETS & HWY_AVX2
#define EBB_WITH_AVX2(X) X(AVX2)
#else
#define EBB_WITH_AVX2(X)
#endif
#if HWY_TARGETS & HWY_SSE4
#define EBB_WITH_SSE4(X) X(SSE4)
#else
#define EBB_WITH_SSE4(X)
#endif
#if HWY_TARGETS & HWY_NEON
#define EBB_WITH_NEON(X) X(NEON)
#else
#define EBB_WITH_NEON(X)
#endif
#if HWY_TARGETS & HWY_EMU128
#define EBB_WITH_EMU128(X) X(EMU128)
#else
#define EBB_WITH_EMU128(X)
#endif
#if HWY_TARGETS & HWY_SCALAR
#define EBB_WITH_SCALAR(X) X(SCALAR)
#else
#define EBB_WITH_SCALAR(X)
#endif
#define EBB_EACH_TARGET(X) \
  EBB_WITH_AVX3(X) EBB_WITH_AVX2(X) EBB_WITH_SSE4(X) EBB_WITH_NEON(X) EBB_WITH_EMU128(X) EBB_WITH_SCALAR(X)
