// SPDX-License-Identifier: MIT
// Included per target, before its code: code for x86 processors without SSE4, all older than 2008, is compiled for size
// rather than speed. It comes last, so nothing else is affected.
#if HWY_TARGET == HWY_SCALAR && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif
