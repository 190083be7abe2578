// SPDX-License-Identifier: MIT
#pragma once
#include <future>

namespace ebb {

// Work on the memory of a run that goes on after the step that began it (an exchange with other ranks). The run, which
// is this thread's, does not end before it is done, so that no memory is released under it. Whether it failed is for
// the step that needs its results.
void goes_on(std::shared_future<void> work);
void wait_for_background() noexcept;

}  // namespace ebb
