// SPDX-License-Identifier: MIT
#pragma once

// Included first by the headers that include nothing else, so that this is the first thing an older standard meets.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error \
    "Ebb needs C++20: compile with -std=c++20 or later (CMake: target_compile_features(your_target PUBLIC cxx_std_20))"
#endif
