// SPDX-License-Identifier: MIT
#include "cpu/jit/code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace ebb::cpu {

CodeMemory::CodeMemory(std::span<const std::uint8_t> code) : bytes_(code.size()) {
  if (bytes_ == 0) return;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  std::memcpy(memory, code.data(), bytes_);
  if (mprotect(memory, bytes_, PROT_READ | PROT_EXEC) != 0) {
    munmap(memory, bytes_);
    return;
  }
  auto* begin = static_cast<char*>(memory);
  __builtin___clear_cache(begin, begin + bytes_);  // instructions are fetched past the data cache
  memory_ = memory;
}

CodeMemory::~CodeMemory() {
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace ebb::cpu
