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

// The device's memory may be read and written by this thread: while kernels run and elements are copied. Otherwise
// touching it ends the program, as it would with a GPU's (where the processor has protection keys).
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
};

void install_emulated_lt();  // cuBLASLt

// Does the work, or puts it into the graph that the emulated stream captures.
cuda::Result in_stream(cuda::Stream stream, std::function<cuda::Result()> work);

}  // namespace ebb::testing
