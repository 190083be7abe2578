// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

// True while the calling thread runs a checkpointed function for the second time, in the backward pass. Layers that
// keep statistics of their inputs update them only in the first run.
bool in_second_run();

}  // namespace ebb
