// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/runtime/driver.h"

namespace ebb::cuda {

// The subset of cublasLt.h used here.
using Status = int;
inline constexpr Status kNotSupported = 15;
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};
inline constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBias = 8;  // of a product
inline constexpr int kScalesA = 17, kScalesB = 18, kQuickSums = 25, kScaleModeA = 31, kScaleModeB = 32;
inline constexpr std::int32_t kScalePerLine = 3;                        // a mode: CUBLASLT_..._OUTER_VEC_32F
inline constexpr std::int32_t kAddsBias = 4;                            // an epilogue
inline constexpr int kBatchCount = 5, kBatchOffset = 6;                 // of a matrix
inline constexpr int kMostWorkspace = 1, kReductions = 3, kAlignA = 5;  // of a preference; B, C, D follow A
inline constexpr int kSplitK = 2;                                       // of an algorithm
inline constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77;  // f32 without TF32; f64; f32 with it
inline constexpr int kR32 = 0, kR64 = 1, kR16 = 2, kRB16 = 14, kRE4M3 = 28, kRE5M2 = 29;

#define EBB_CUBLASLT(X)                                                                                                \
  X(create, cublasLtCreate, (void**))                                                                                  \
  X(create_product, cublasLtMatmulDescCreate, (void**, int, int))                                                      \
  X(destroy_product, cublasLtMatmulDescDestroy, (void*))                                                               \
  X(set_product, cublasLtMatmulDescSetAttribute, (void*, int, const void*, std::size_t))                               \
  X(create_matrix, cublasLtMatrixLayoutCreate, (void**, int, std::uint64_t, std::uint64_t, std::int64_t))              \
  X(destroy_matrix, cublasLtMatrixLayoutDestroy, (void*))                                                              \
  X(set_matrix, cublasLtMatrixLayoutSetAttribute, (void*, int, const void*, std::size_t))                              \
  X(create_preference, cublasLtMatmulPreferenceCreate, (void**))                                                       \
  X(destroy_preference, cublasLtMatmulPreferenceDestroy, (void*))                                                      \
  X(set_preference, cublasLtMatmulPreferenceSetAttribute, (void*, int, const void*, std::size_t))                      \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                         \
    (void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*))                                          \
  X(check_algorithm, cublasLtMatmulAlgoCheck,                                                                          \
    (void*, void*, void*, void*, void*, void*, const Algorithm*, Heuristic*))                                          \
  X(algorithm_number, cublasLtMatmulAlgoConfigGetAttribute, (const Algorithm*, int, void*, std::size_t, std::size_t*)) \
  X(multiply, cublasLtMatmul,                                                                                          \
    (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, \
     const Algorithm*, void*, std::size_t, Stream))

struct Lt {
#define EBB_MEMBER(name, symbol, parameters) Status(*name) parameters = nullptr;
  EBB_CUBLASLT(EBB_MEMBER)
#undef EBB_MEMBER
  void* handle = nullptr;
};

const Lt& lt();  // throws an Error if there is none

// For tests, before the first product.
void install_lt(const Lt& table);

}  // namespace ebb::cuda
