// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// The parts of CUDA's driver and run-time compiler that Ebb calls, as tables of functions: building Ebb needs nothing
// of CUDA, and tests can put a device of their own behind the tables.
namespace ebb::cuda {

using Result = int;
using Context = struct ContextOf*;
using Stream = struct StreamOf*;
using Event = struct EventOf*;
using Module = struct ModuleOf*;
using Function = struct FunctionOf*;
using Graph = struct GraphOf*;
using GraphNode = struct GraphNodeOf*;
using GraphExec = struct GraphExecOf*;
using MemoryPool = struct MemoryPoolOf*;
using Address = unsigned long long;

inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;
inline constexpr int kMultiprocessors = 16, kCapabilityMajor = 75, kCapabilityMinor = 76;  // device attributes
inline constexpr int kSharedOfMultiprocessor = 81, kSharedOfBlock = 97;                    // also
inline constexpr int kMostSharedOfFunction = 8;                                            // a function attribute
inline constexpr unsigned kNonBlocking = 1, kDisableTiming = 2, kPortable = 1;
inline constexpr int kMapF16 = 6, kMapBf16 = 9, kMapSwizzle128 = 3, kMapPromote256 = 3;  // of a tensor map
inline constexpr int kCaptureRelaxed = 2;                                                // of threads towards captures
inline constexpr int kReleaseThreshold = 4;                                              // of a memory pool
inline const Stream kLegacyStream = reinterpret_cast<Stream>(1);  // the default stream by another name

// CUDA_KERNEL_NODE_PARAMS_v1
struct KernelNode {
  Function kernel = nullptr;
  unsigned blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1}, shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
};

// CUlaunchAttribute and CUlaunchConfig
struct LaunchAttribute {
  int id = 0, unused = 0;
  union {
    int value;
    char bytes[64];
  };
};
struct LaunchConfig {
  unsigned blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1}, shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned count = 0;
};
inline constexpr int kBeginsEarly = 6;                 // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
inline constexpr int kGraphsOfEarlyLaunches = 12'030;  // version of the driver that records them

// Name in the table, symbol in the library, parameters.
#define EBB_CUDA_DRIVER(X)                                                                                     \
  X(init, cuInit, (unsigned))                                                                                  \
  X(version, cuDriverGetVersion, (int*))                                                                       \
  X(error_name, cuGetErrorName, (Result, const char**))                                                        \
  X(error_text, cuGetErrorString, (Result, const char**))                                                      \
  X(device_count, cuDeviceGetCount, (int*))                                                                    \
  X(device, cuDeviceGet, (int*, int))                                                                          \
  X(device_name, cuDeviceGetName, (char*, int, int))                                                           \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, int))                                                  \
  X(total_memory, cuDeviceTotalMem_v2, (std::size_t*, int))                                                    \
  X(retain_context, cuDevicePrimaryCtxRetain, (Context*, int))                                                 \
  X(set_context, cuCtxSetCurrent, (Context))                                                                   \
  X(current_context, cuCtxGetCurrent, (Context*))                                                              \
  X(allocate, cuMemAlloc_v2, (Address*, std::size_t))                                                          \
  X(free, cuMemFree_v2, (Address))                                                                             \
  X(allocate_async, cuMemAllocAsync, (Address*, std::size_t, Stream))                                          \
  X(free_async, cuMemFreeAsync, (Address, Stream))                                                             \
  X(default_pool, cuDeviceGetDefaultMemPool, (MemoryPool*, int))                                               \
  X(set_pool, cuMemPoolSetAttribute, (MemoryPool, int, void*))                                                 \
  X(allocate_host, cuMemHostAlloc, (void**, std::size_t, unsigned))                                            \
  X(to_device, cuMemcpyHtoDAsync_v2, (Address, const void*, std::size_t, Stream))                              \
  X(to_host, cuMemcpyDtoHAsync_v2, (void*, Address, std::size_t, Stream))                                      \
  X(set_bytes, cuMemsetD8Async, (Address, unsigned char, std::size_t, Stream))                                 \
  X(create_stream, cuStreamCreate, (Stream*, unsigned))                                                        \
  X(synchronize, cuStreamSynchronize, (Stream))                                                                \
  X(synchronize_all, cuCtxSynchronize, ())                                                                     \
  X(stream_wait, cuStreamWaitEvent, (Stream, Event, unsigned))                                                 \
  X(is_capturing, cuStreamIsCapturing, (Stream, int*))                                                         \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                                   \
  X(create_event, cuEventCreate, (Event*, unsigned))                                                           \
  X(destroy_event, cuEventDestroy_v2, (Event))                                                                 \
  X(record, cuEventRecord, (Event, Stream))                                                                    \
  X(elapsed, cuEventElapsedTime, (float*, Event, Event))                                                       \
  X(query, cuEventQuery, (Event))                                                                              \
  X(wait, cuEventSynchronize, (Event))                                                                         \
  X(load_module, cuModuleLoadData, (Module*, const void*))                                                     \
  X(function, cuModuleGetFunction, (Function*, Module, const char*))                                           \
  X(set_function, cuFuncSetAttribute, (Function, int, int))                                                    \
  X(blocks_of_multiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, Function, int, std::size_t)) \
  X(launch, cuLaunchKernel,                                                                                    \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**))  \
  X(launch_with, cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))                            \
  X(begin_capture, cuStreamBeginCapture_v2, (Stream, int))                                                     \
  X(end_capture, cuStreamEndCapture, (Stream, Graph*))                                                         \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                                   \
    (Stream, int*, unsigned long long*, Graph*, const GraphNode**, std::size_t*))                              \
  X(instantiate, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long))                         \
  X(set_kernel, cuGraphExecKernelNodeSetParams, (GraphExec, GraphNode, const KernelNode*))                     \
  X(launch_graph, cuGraphLaunch, (GraphExec, Stream))                                                          \
  X(destroy_exec, cuGraphExecDestroy, (GraphExec))                                                             \
  X(destroy_graph, cuGraphDestroy, (Graph))                                                                    \
  X(encode_tiles, cuTensorMapEncodeTiled,                                                                      \
    (void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*,       \
     const std::uint32_t*, int, int, int, int))

struct Driver {
#define EBB_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  EBB_CUDA_DRIVER(EBB_MEMBER)
#undef EBB_MEMBER
};

using RtcProgram = struct RtcProgramOf*;
#define EBB_CUDA_COMPILER(X)                                                                                          \
  X(version, nvrtcVersion, (int*, int*))                                                                              \
  X(create, nvrtcCreateProgram, (RtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, nvrtcDestroyProgram, (RtcProgram*))                                                                      \
  X(compile, nvrtcCompileProgram, (RtcProgram, int, const char* const*))                                              \
  X(log_size, nvrtcGetProgramLogSize, (RtcProgram, std::size_t*))                                                     \
  X(log, nvrtcGetProgramLog, (RtcProgram, char*))                                                                     \
  X(code_size, nvrtcGetCUBINSize, (RtcProgram, std::size_t*))                                                         \
  X(code, nvrtcGetCUBIN, (RtcProgram, char*))

struct Compiler {
#define EBB_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  EBB_CUDA_COMPILER(EBB_MEMBER)
#undef EBB_MEMBER
};

// Null where there is no driver or it does not start.
const Driver* find_driver();
std::string no_driver();     // the reason
const Driver& driver();      // throws an Error if there is none
const Compiler& compiler();  // throws an Error if there is none

// For tests, before anything of CUDA is used.
void install_driver(const Driver& driver, const Compiler& compiler);

// Throws an Error naming the call and the driver's message unless `result` is success.
void check(Result result, const char* call);

}  // namespace ebb::cuda
