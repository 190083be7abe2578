// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace ebb::cuda {

// A text of kernels without the prelude, and how to load it.
struct KernelSource {
  std::string text;
  bool warpgroups = false;      // has products of warpgroups (wgmma): instructions of one architecture only ("sm_90a")
  bool dynamic_shared = false;  // has shared memory sized by the launch
  int spill_blocks = 0;         // recompiled for fewer blocks if registers spill, see kernel_cache.h
};

// The bytes of a kernel's argument struct (src/cuda/kernels/args), as the words that recordings store and modify.
class KernelArgs {
 public:
  template <class Args>
  requires(std::is_trivially_copyable_v<Args>) KernelArgs(const Args& args)
      : words_(sizeof(Args) / sizeof(std::uint64_t)) {
    static_assert(sizeof(Args) % sizeof(std::uint64_t) == 0);
    std::memcpy(words_.data(), &args, sizeof(Args));
  }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace ebb::cuda
