// SPDX-License-Identifier: MIT
#include "cuda/runtime/kernel_cache.h"

#include <cstring>

#include "target.h"

// A file of the cache of GPU kernels, requested by the key that it claims to have.
EBB_FUZZ_TARGET(kernel_cache) {
  using namespace ebb;
  using namespace ebb::fuzz;
  cuda::KernelKey key;
  if (bytes.size() >= 24) {
    std::memcpy(&key.low, bytes.data() + 8, 8);
    std::memcpy(&key.high, bytes.data() + 16, 8);
  }
  const std::string path = opened_file_of(bytes), code = cuda::read_kernel_file(path, key);
  if (!code.empty() &&
      (bytes.size() != 40 + code.size() || std::memcmp(code.data(), bytes.data() + 40, code.size()) != 0))
    found("a kernel that is not the file's");
  ++key.low;
  if (!cuda::read_kernel_file(path, key).empty()) found("a kernel of another key");
}
