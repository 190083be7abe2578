// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "comm/transport.h"

namespace ebb::comm {

// Ranks that are threads of one process, for tests: one transport per rank. Ranks of one host, `per_host` each, read
// each other's memory.
std::vector<std::unique_ptr<Transport>> local_ranks(int size, int per_host = 1 << 20);

}  // namespace ebb::comm

namespace ebb::distributed {

// Calls f on `ranks` threads, each a rank with a world of its own. Rethrows the first exception.
void run_as_threads(int ranks, const std::function<void()>& f, int per_host = 1 << 20);

}  // namespace ebb::distributed
