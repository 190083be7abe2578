// SPDX-License-Identifier: MIT
#include "cpu/model/cpu_model.h"

#include <unistd.h>

#include <algorithm>

namespace ebb::cpu {

const CpuModel& cpu_model() {
  static const CpuModel model = [] {
    CpuModel m;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    m.l2_bytes = std::max<std::int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
#endif
    return m;
  }();
  return model;
}

}  // namespace ebb::cpu
