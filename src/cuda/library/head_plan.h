// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cuda/runtime/gpu.h"
#include "ebb/dtype.h"

namespace ebb::cuda {

// The properties of a linear_cross_entropy request that decide how the work is divided.
struct HeadWork {
  std::int64_t rows = 0, classes = 0, width = 0;
  DType dtype = DType::bf16;
  std::int64_t chunk = 0;      // rows, where the call says so
  bool gradients = false;      // of x or of the head
  bool head_gradient = false;  // summed in f32 over chunks of halves
  bool narrow_logits = false;  // stored like x
  bool whole_units = false;    // rows come in units whose gradients are known once all their losses are
};

// Rows stream in chunks: the gradients of one chunk's logits are in memory at a time, and two products use them. The
// logits themselves are held for a part of a chunk at a time.
struct HeadPlan {
  std::int64_t step = 0, width = 0;  // classes and width, padded
  std::int64_t chunk = 1, part = 1;  // rows

  bool operator==(const HeadPlan&) const = default;
};

// Decided by shapes alone; padding by classes and width alone, so that no row depends on how many there are.
HeadPlan plan_head(const GpuModel& model, const HeadWork& work);

}  // namespace ebb::cuda
