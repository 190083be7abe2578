// SPDX-License-Identifier: MIT
#include "backend/background.h"

#include <utility>
#include <vector>

namespace ebb {
namespace {

thread_local std::vector<std::shared_future<void>> going_on;

}  // namespace

void goes_on(std::shared_future<void> work) { going_on.push_back(std::move(work)); }

void wait_for_background() noexcept {
  for (const std::shared_future<void>& work : std::exchange(going_on, {})) work.wait();
}

}  // namespace ebb
