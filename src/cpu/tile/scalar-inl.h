// SPDX-License-Identifier: MIT
// Included per target, before its code: that for x86 processors without SSE4, all older than 2008, is compiled to be
// small rather than fast. It comes last, so nothing else is.
#if HWY_TARGET == HWY_SCALAR && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif
