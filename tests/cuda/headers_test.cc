// SPDX-License-Identifier: MIT
// Compares declarations of CUDA's functions and numbers in src/cuda with CUDA's own headers, if installed, when this
// file is compiled; nothing here runs.
#include <gtest/gtest.h>

#include "cuda/library/cublaslt.h"
#include "cuda/library/cudnn.h"
#include "cuda/library/cusolver.h"
#include "cuda/runtime/driver.h"

#if __has_include(<cuda.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cuda.h>
#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>
#endif

#include <type_traits>

#if CUDA_VERSION >= 13000  // drivers still have it, for programs built before; 12's header says this
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                              const CUgraphNode**, size_t*);
#endif

namespace ebb::cuda {
namespace {

// Handles and enumerations have our own names: what counts is how arguments are passed.
template <class Ours, class Theirs>
constexpr bool passes_alike() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}
template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class... Ours, class R, class... Theirs>
struct Alike<int (*)(Ours...), R (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (passes_alike<Ours, Theirs>() && ...) && sizeof(R) == sizeof(int);
    } else {
      return false;
    }
  }();
};

#define EBB_ALIKE(name, symbol, parameters) \
  static_assert(Alike<Result(*) parameters, decltype(&::symbol)>::value, #symbol);
EBB_CUDA_DRIVER(EBB_ALIKE)
EBB_CUBLASLT(EBB_ALIKE)
#if __has_include(<cusolverDn.h>)
EBB_CUSOLVER(EBB_ALIKE)
#define EBB_ALIKE_OF_TYPES(name, symbol, parameters) \
  EBB_ALIKE(name, cusolverDnS##symbol, parameters)   \
  EBB_ALIKE(name, cusolverDnD##symbol, parameters)
EBB_CUSOLVER_OF_TYPE(EBB_ALIKE_OF_TYPES)
EBB_CUSOLVER_SINCE_12_6(EBB_ALIKE)
#undef EBB_ALIKE_OF_TYPES
#define EBB_ALIKE_OF_TYPES(name, symbol, parameters) \
  EBB_ALIKE(name, cublasS##symbol, parameters)       \
  EBB_ALIKE(name, cublasD##symbol, parameters)
EBB_CUBLAS(EBB_ALIKE)
EBB_CUBLAS_OF_TYPE(EBB_ALIKE_OF_TYPES)
static_assert(cusolver::kLower == CUBLAS_FILL_MODE_LOWER && cusolver::kUpper == CUBLAS_FILL_MODE_UPPER);
static_assert(cusolver::kVectors == CUSOLVER_EIG_MODE_VECTOR);
#endif

static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING && kDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(offsetof(KernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams));
static_assert(offsetof(KernelNode, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes));
static_assert(kMapBf16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && kMapSwizzle128 == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(kMapPromote256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B && sizeof(CUtensorMap) == 128);
static_assert(kReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Heuristic, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(kTransA == CUBLASLT_MATMUL_DESC_TRANSA && kTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && kBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kAddsBias == CUBLASLT_EPILOGUE_BIAS && sizeof(cublasLtEpilogue_t) == sizeof kAddsBias);
static_assert(kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kBatchOffset == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kReductions == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kAlignA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kAlignA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kSplitK == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
static_assert(kCompute32 == CUBLAS_COMPUTE_32F && kCompute64 == CUBLAS_COMPUTE_64F &&
              kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kR32 == CUDA_R_32F && kR64 == CUDA_R_64F && kR16 == CUDA_R_16F && kRB16 == CUDA_R_16BF);

}  // namespace
}  // namespace ebb::cuda
#endif

#if __has_include(<cudnn.h>)
#include <cudnn.h>

namespace ebb::cuda {
namespace {

#define EBB_ALIKE_CUDNN(name, symbol, parameters) \
  static_assert(Alike<cudnn::Status(*) parameters, decltype(&::symbol)>::value, #symbol);
EBB_CUDNN(EBB_ALIKE_CUDNN)

using namespace cudnn;
constexpr bool same(int ours, int theirs) { return ours == theirs; }
static_assert(same(kHandle, CUDNN_TYPE_HANDLE) && same(kDataType, CUDNN_TYPE_DATA_TYPE) &&
              same(kBoolean, CUDNN_TYPE_BOOLEAN));
static_assert(same(kInt64, CUDNN_TYPE_INT64) && same(kFloat, CUDNN_TYPE_FLOAT) && same(kDouble, CUDNN_TYPE_DOUBLE));
static_assert(same(kPointer, CUDNN_TYPE_VOID_PTR) && same(kMode, CUDNN_TYPE_CONVOLUTION_MODE));
static_assert(same(kHeuristicMode, CUDNN_TYPE_HEUR_MODE) && same(kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE));
static_assert(same(kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR));
static_assert(same(kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) &&
              same(kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
static_assert(same(kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
              same(kHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
static_assert(same(kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) &&
              same(kGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
static_assert(same(kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
static_assert(same(kBackwardFilter, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
static_assert(same(kBackwardData, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
static_assert(same(kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) &&
              same(kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
static_assert(same(kComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) &&
              same(kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE));
static_assert(same(kDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS) &&
              same(kStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
static_assert(same(kPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
static_assert(same(kPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
static_assert(same(kSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
static_assert(same(kHeuristicModeOf, CUDNN_ATTR_ENGINEHEUR_MODE) &&
              same(kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS));
static_assert(same(kHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) &&
              same(kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE));
static_assert(same(kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
static_assert(same(kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
static_assert(same(kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA));
static_assert(same(kForwardAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA));
static_assert(same(kForwardAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC));
static_assert(same(kForwardAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
static_assert(same(kForwardAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
static_assert(same(kForwardAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
static_assert(same(kBackwardDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA));
static_assert(same(kBackwardDataAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W));
static_assert(same(kBackwardDataAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
static_assert(same(kBackwardDataAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
static_assert(same(kBackwardFilterAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA));
static_assert(same(kBackwardFilterAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
static_assert(same(kBackwardFilterAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
static_assert(same(kBackwardFilterAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
static_assert(same(kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS) &&
              same(kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
static_assert(same(kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE) &&
              same(kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS));
static_assert(same(kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES) && same(kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID));
static_assert(same(kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) &&
              same(kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
static_assert(same(kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE) &&
              same(kEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE));
static_assert(same(kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && same(kFft, CUDNN_NUMERICAL_NOTE_FFT));
static_assert(same(kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
static_assert(same(kReducedPrecisionSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
static_assert(same(kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
              same(kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD));
static_assert(same(kEngineBehavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) && same(kBehaviorNote, CUDNN_TYPE_BEHAVIOR_NOTE));
static_assert(same(kRuntimeCompilation, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION));
static_assert(same(kNotes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT) &&
              same(kWinograd13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
static_assert(same(kF32, CUDNN_DATA_FLOAT) && same(kF64, CUDNN_DATA_DOUBLE) && same(kF16, CUDNN_DATA_HALF));
static_assert(same(kBf16, CUDNN_DATA_BFLOAT16) && same(kCrossCorrelation, CUDNN_CROSS_CORRELATION));
static_assert(same(kModeA, CUDNN_HEUR_MODE_A) && same(kModeFallback, CUDNN_HEUR_MODE_FALLBACK));

}  // namespace
}  // namespace ebb::cuda
#endif

TEST(CudaHeaders, AgreeWithOurTables) { SUCCEED(); }
