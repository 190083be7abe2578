// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "ebb/device.h"

namespace ebb {

// The functions below mean the default device unless they name one.

// Statistics of the pool that a device's tensor memory comes from, in bytes.
struct MemoryStats {
  std::size_t live = 0;    // handed out now
  std::size_t peak = 0;    // most handed out since reset_peak_memory()
  std::size_t cached = 0;  // kept for reuse
  std::size_t limit = 0;   // 0: none
};
MemoryStats memory_stats(Device device = default_device());
void reset_peak_memory(Device device = default_device());
void set_memory_limit(std::size_t bytes,
                      Device device = default_device());  // exceeding it is an Error(memory); 0 lifts the limit
void release_cached_memory(Device device = default_device());

// How much memory a computation should take on a device, its inputs and results included (0: as much as is fast, the
// default). Computations that would take more are planned otherwise: large products and what is made of them row by
// row in shorter strips, and made again where that saves memory (docs/strips.md). Error(memory) where even that does
// not suffice. For computations that are planned from now on, in all threads.
void set_memory_budget(std::size_t bytes, Device device = default_device());
std::size_t memory_budget(Device device = default_device());

// How many threads computations may use (default: the processors of this process); up to 256 share one loop. Results
// are bit-identical for any number.
void set_num_threads(int n);
int num_threads();

// Whether a row of a product of f32 or f64 has the same bits alone as in a batch on GPUs, too, at the price of speed
// (default: no). It always has on the CPU, and in products of halves. For products started from now on, in all threads.
void set_batch_invariant(bool on);
bool batch_invariant();

// Whether products and convolutions of f32 on GPUs may round their factors to TF32 (10 bits after the point instead of
// 23, as f16 has), which is several times as fast (default: no). Sums stay f32; where rows must not depend on their
// batch, nothing is rounded. For products started from now on, in all threads.
void set_tf32(bool on);
bool tf32();

}  // namespace ebb
