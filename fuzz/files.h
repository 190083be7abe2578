// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/io.h"
#include "graph/node.h"

namespace ebb::fuzz {

// Reads every byte that came out of a file.
inline void use(const Tensor& t) {
  const HostElements elements = host_elements(t);
  unsigned sum = 0;
  for (const std::byte b : elements.bytes) sum += static_cast<unsigned>(b);
  asm volatile("" : : "r"(sum));
}
inline void use(const io::TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) use(tensor);
}

}  // namespace ebb::fuzz
