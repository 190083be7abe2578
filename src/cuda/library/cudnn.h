// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cuda/runtime/driver.h"

namespace ebb::cuda {

// The subset of cudnn_graph.h used here: a computation is described by descriptors, which are bags of attributes.
// tests/cuda/headers_test.cc compares the numbers with cuDNN's own.
namespace cudnn {
using Status = int;
using Descriptor = void*;
enum Type : int { kHandle, kDataType, kBoolean, kInt64, kFloat, kDouble, kPointer, kMode, kHeuristicMode };
inline constexpr int kNumericalNote = 11, kDescriptor = 15, kBehaviorNote = 19;  // further types
enum Kind : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};
enum Attribute : int {
  kComputeType = 100,
  kConvolutionMode,
  kDilations,
  kStrides,
  kPostPaddings,
  kPrePaddings,
  kSpatialDims,
  kHeuristicModeOf = 200,
  kHeuristicGraph,
  kHeuristicResults,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig,
  kPlanWorkspace,
  // For each of the three operations: factors of the result and of the previous content, the convolution, and its
  // tensors: W, X, Y; W, DX, DY; DW, X, DY.
  kForwardAlpha = 700,
  kBackwardDataAlpha = 706,
  kBackwardFilterAlpha = 712,
  kGraphHandle = 800,
  kGraphOperations,
  kTensorAlignment = 900,
  kTensorDataType,
  kTensorDimensions,
  kTensorStrides,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
  kEngineBehavior = 1305,
};
enum Note : int {
  kTensorCore,
  kDownConvertInputs,  // f32 is multiplied as TF32
  kReducedPrecisionSums,
  kFft,
  kNondeterministic,
  kWinograd,
  kWinograd4x4,
  kWinograd6x6,
  kWinograd13x13,
};
inline constexpr int kNotes = 10;                                  // how many exist
inline constexpr int kRuntimeCompilation = 0, kBehaviorNotes = 5;  // an engine's behaviour; number of such notes
enum DataType : int { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 9 };
inline constexpr int kCrossCorrelation = 1;          // a convolution's mode: windows are not mirrored
inline constexpr int kModeA = 3, kModeFallback = 2;  // of heuristics
}  // namespace cudnn

#define EBB_CUDNN(X)                                                                      \
  X(create, cudnnCreate, (void**))                                                        \
  X(set_stream, cudnnSetStream, (void*, Stream))                                          \
  X(create_descriptor, cudnnBackendCreateDescriptor, (int, void**))                       \
  X(destroy_descriptor, cudnnBackendDestroyDescriptor, (void*))                           \
  X(finalize, cudnnBackendFinalize, (void*))                                              \
  X(set, cudnnBackendSetAttribute, (void*, int, int, std::int64_t, const void*))          \
  X(get, cudnnBackendGetAttribute, (void*, int, int, std::int64_t, std::int64_t*, void*)) \
  X(execute, cudnnBackendExecute, (void*, void*, void*))

struct Cudnn {
#define EBB_MEMBER(name, symbol, parameters) cudnn::Status(*name) parameters = nullptr;
  EBB_CUDNN(EBB_MEMBER)
#undef EBB_MEMBER
};

// Null where there is none, or EBB_CUDNN=0: convolutions are then products of columns (window.cc).
const Cudnn* cudnn_table();

// For tests: uses this table from now on, or none.
void install_cudnn(const Cudnn* table);

}  // namespace ebb::cuda
