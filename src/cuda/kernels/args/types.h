// SPDX-License-Identifier: MIT
#pragma once

// Numbers, by the names that kernels and their arguments have for them. The host's compiler reads this folder, too.
namespace ebb::cuda {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

constexpr int kThreads = 256;  // of a block, where nothing else is said

// Both compilers lay arguments out in the same way: numbers and pointers of 8 bytes, so many of them.
#define EBB_ARGS(words, ...)                                                                \
  static_assert(sizeof(__VA_ARGS__) == 8 * (words) && __is_trivially_copyable(__VA_ARGS__), \
                "arguments are words of 8 bytes")

}  // namespace ebb::cuda
