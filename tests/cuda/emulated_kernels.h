// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cuda/kernel_store.h"
#include "cuda/print/sweep_text.h"

namespace ebb::testing {

// Printed sweeps, compiled for the CPU together and run by emulated.h.
class EmulatedKernels {
 public:
  // Returns the kernel's number. Equal texts share one.
  int add(const cuda::SweepText& text) {
    const auto [it, fresh] = numbers_.try_emplace(text.text, static_cast<int>(numbers_.size()));
    if (fresh) sources_.push_back({.text = text.text});
    return it->second;
  }
  const std::vector<cuda::KernelSource>& sources() const { return sources_; }
  void compile() { KernelStore::get().prepare(sources_); }

  // All kernels, with threads and blocks in an order of `seed`.
  void run(int number, const cuda::SweepText& text, const std::vector<Argument>& arguments, cuda::ErrorSlot& error,
           unsigned long long seed) const {
    std::vector<std::uint64_t> work(text.workspace / sizeof(std::uint64_t) + 1, 0x7FF4'5A5A'5A5A'5A5Aull);
    const std::vector<std::uint64_t> words = cuda::bound_words(text, arguments, &error, 0, work.data());
    // Two blocks, so that they take rows in turns.
    const unsigned blocks = text.stays ? std::min(text.blocks, 2u) : text.blocks;
    launch("sweep", number, blocks, text.threads, text.shared, words, seed);
    for (int k = 1; k < text.launches; ++k)
      launch("sweep_" + std::to_string(k), number, blocks, text.threads, text.shared, words, seed);
    if (text.finish_blocks) launch("finish", number, text.finish_blocks, text.finish_threads, 0, words, seed + 1);
  }

 private:
  void launch(const std::string& kernel, int number, unsigned blocks, unsigned threads, unsigned shared,
              const std::vector<std::uint64_t>& words, unsigned long long seed) const {
    const cuda::KernelSource& source = sources_[static_cast<std::size_t>(number)];
    const auto run = reinterpret_cast<KernelStore::Run>(KernelStore::get().kernel(source, kernel));
    ASSERT_NE(run, nullptr) << kernel;
    ASSERT_EQ(run(blocks, threads, shared, words.data(), seed), 0) << kernel;
  }

  std::vector<cuda::KernelSource> sources_;
  std::map<std::string, int> numbers_;
};

}  // namespace ebb::testing
