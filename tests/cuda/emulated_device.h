#pragma once
#include <functional>
#include <string>

#include "cuda/runtime/driver.h"

namespace ebb::testing {

// Puts a device of the host's memory behind CUDA's tables of functions, whose kernels a C++ compiler makes and fibers
// run, with cuBLASLt's products by plain loops.
void emulate_device();
bool device_is_emulated();
bool device_records();  // as of record_kernels()
// The same where there is no GPU. Where there is one nothing happens: the same tests are for both.
void use_emulated_device_without_gpu();
// A device that computes nothing and writes the texts of its kernels into a file, for KernelStore::prepare.
void record_kernels(const std::string& path);

void install_emulated_lt();  // cuBLASLt

// Does the work, or puts it into the graph that the emulated stream captures.
cuda::Result in_stream(cuda::Stream stream, std::function<cuda::Result()> work);

}  // namespace ebb::testing
