#pragma once

namespace ebb {

// True while the calling thread runs a checkpointed function for the second time, in the backward pass. Layers that
// remember what they saw (running statistics) do so in the first run alone.
bool in_second_run();

}  // namespace ebb
