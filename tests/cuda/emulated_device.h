#pragma once

namespace ebb::testing {

// Puts a device of the host's memory behind CUDA's tables of functions, whose kernels a C++ compiler makes and fibers
// run. Where there is a real GPU nothing happens: the same tests are for both.
void use_emulated_device_without_gpu();
bool device_is_emulated();

}  // namespace ebb::testing
