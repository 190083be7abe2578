// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cuda/library/cudnn.h"
#include "cuda/library/cusolver.h"
#include "cuda/runtime/driver.h"
#include "ebb/device.h"

namespace ebb::testing {

inline constexpr Device kGpu{Device::Kind::cuda, 0};

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

void install_emulated_lt();                 // cuBLASLt
long emulated_slow_products();              // so far: of halves, with sizes or steps that are not in eights
int emulated_algorithm();                   // of the last product: 0 or 1, which makes the same
const cuda::Cudnn& emulated_cudnn();        // for install_cudnn: the emulated device begins without one
const cuda::Cusolver& emulated_cusolver();  // for install_cusolver, likewise
const cuda::Cublas& emulated_cublas();
long emulated_solver_calls();           // so far
int emulated_convolutions();            // that it has run
int emulated_unaligned_convolutions();  // those of images whose channels are no multiple of eight

// Does the work, or puts it into the graph that the emulated stream captures.
cuda::Result in_stream(cuda::Stream stream, std::function<cuda::Result()> work);

// Streams of the emulated device are numbers, its own is the first; what they do not capture is done as it is given.
// Requests to them since the last call: "launch 2", "record 1", "wait 2" (for an event), "allocate 2"...
std::vector<std::string> emulated_stream_calls();
void* new_emulated_stream();
void capture_emulated_stream(void* stream, bool on);  // it says that a graph is captured from it
void leave_emulated_work_unfinished(bool on);         // events say that what they stand for is still being done

}  // namespace ebb::testing
