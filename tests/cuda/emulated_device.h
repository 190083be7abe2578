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

// Puts a device of host memory behind CUDA's tables of functions, whose kernels a C++ compiler compiles and fibers run,
// with cuBLASLt's products by plain loops.
void emulate_device();
bool device_is_emulated();
bool device_records();  // see record_kernels()
// The same if there is no GPU, otherwise nothing: the same tests serve both.
void use_emulated_device_without_gpu();
// A device that computes nothing and writes the texts of its kernels into a file, for KernelStore::prepare.
void record_kernels(const std::string& path);

// Lets this thread access the device's memory: while kernels run and elements are copied. Otherwise touching it ends
// the program, as it would with a GPU's (on processors with protection keys).
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
};

void install_emulated_lt();                 // cuBLASLt
long emulated_slow_products();              // so far: of halves, with sizes or steps that are not in eights
int emulated_algorithm();                   // of the last product: 0 or 1, which give the same result
const cuda::Cudnn& emulated_cudnn();        // for install_cudnn: the emulated device begins without one
const cuda::Cusolver& emulated_cusolver();  // for install_cusolver, likewise
const cuda::Cublas& emulated_cublas();
long emulated_solver_calls();           // so far
int emulated_convolutions();            // that it has run
int emulated_convolutions_by_tensor_cores();
int emulated_unaligned_convolutions();  // those of images whose channels are not a multiple of eight

// Does the work, or adds it to the graph that the emulated stream captures.
cuda::Result in_stream(cuda::Stream stream, std::function<cuda::Result()> work);

// Streams of the emulated device are numbers, its own is the first; work they do not capture is done immediately.
// Returns the requests to them since the last call: "launch 2", "record 1", "wait 2" (for an event), "allocate 2"...
std::vector<std::string> emulated_stream_calls();
void* new_emulated_stream();
void capture_emulated_stream(void* stream, bool on);  // makes the stream report that a graph is captured from it
void leave_emulated_work_unfinished(bool on);         // makes events report that their work is still in progress

}  // namespace ebb::testing
