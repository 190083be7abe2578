// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb::cpu {

// Machine code generated at run time. Memory is never writable and executable at once; on a system that allows no new
// code it stays empty.
class CodeMemory {
 public:
  CodeMemory() = default;
  explicit CodeMemory(std::span<const std::uint8_t> code);
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory();

  const void* entry() const { return memory_; }  // null when there is none

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ebb::cpu
