// SPDX-License-Identifier: MIT
#pragma once
#include <future>

namespace ebb {

// Registers work on a run's memory that continues after the step that began it (an exchange with other ranks). This
// thread's run does not end before the work is done, so no memory is released under it. A failure is reported by the
// step that needs the results.
void goes_on(std::shared_future<void> work);
void wait_for_background() noexcept;

}  // namespace ebb
