#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace ebb::cpu {

// Bytes of the second cache; 0 where the system does not say.
inline std::int64_t second_cache() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const std::int64_t size = std::max<std::int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
  return size;
#else
  return 0;
#endif
}

}  // namespace ebb::cpu
