// What src/cuda says about CUDA's functions and numbers, against CUDA's own headers where they are installed. It is
// held when this file is compiled; nothing here runs.
#include <gtest/gtest.h>

#include "cuda/library/cublaslt.h"
#include "cuda/runtime/driver.h"

#if __has_include(<cuda.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cuda.h>

#include <type_traits>

#if CUDA_VERSION >= 13000  // drivers still have it, for programs built before; 12's header says this
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                              const CUgraphNode**, size_t*);
#endif

namespace ebb::cuda {
namespace {

// Handles and enumerations have names of ours: what counts is how arguments are passed.
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
static_assert(kCompute32 == CUBLAS_COMPUTE_32F && kCompute64 == CUBLAS_COMPUTE_64F);
static_assert(kR32 == CUDA_R_32F && kR64 == CUDA_R_64F && kR16 == CUDA_R_16F && kRB16 == CUDA_R_16BF);

}  // namespace
}  // namespace ebb::cuda
#endif

TEST(CudaHeaders, AgreeWithOurTables) { SUCCEED(); }
