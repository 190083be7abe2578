// SPDX-License-Identifier: MIT
// CUDA's names for an editor, which reads a kernel without CUDA's headers (.clangd): what NVRTC knows by itself.
// Embedded texts leave it out.
#pragma once
#define __CUDACC_RTC__ 1
#define EBB_EDITOR 1
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct EditorIndex {
  unsigned x, y, z;
};
extern __device__ const EditorIndex threadIdx, blockIdx, gridDim, blockDim;

__device__ void __syncthreads();
__device__ int __syncthreads_or(int x);
__device__ void __syncwarp();
__device__ void __threadfence();
__device__ void __threadfence_system();
template <class T>
__device__ T __shfl_sync(unsigned mask, T x, int lane);
template <class T>
__device__ T __shfl_xor_sync(unsigned mask, T x, int distance);
__device__ unsigned __ballot_sync(unsigned mask, int x);
__device__ int __any_sync(unsigned mask, int x);
__device__ unsigned __reduce_add_sync(unsigned mask, unsigned x);
__device__ unsigned __match_any_sync(unsigned mask, unsigned x);
__device__ int __popc(unsigned x);
__device__ int __clzll(long long x);
__device__ unsigned atomicCAS(unsigned* at, unsigned expected, unsigned x);
__device__ unsigned atomicAdd(unsigned* at, unsigned x);
__device__ unsigned long long atomicAdd(unsigned long long* at, unsigned long long x);
__device__ unsigned atomicMax(unsigned* at, unsigned x);
__device__ unsigned long long atomicMax(unsigned long long* at, unsigned long long x);
__device__ unsigned atomicOr(unsigned* at, unsigned x);
__device__ unsigned atomicExch(unsigned* at, unsigned x);
__device__ float __uint_as_float(unsigned x);
__device__ unsigned __float_as_uint(float x);
__device__ float __double2float_rz(double x);
__device__ double __longlong_as_double(long long x);
__device__ long long __double_as_longlong(double x);
__device__ unsigned long __cvta_generic_to_shared(const void* at);

// Where the prelude's own overloads are: it has no namespace for NVRTC.
namespace ebb::cuda {

#define EBB_EDITOR_1(name)           \
  __device__ float name##f(float x); \
  __device__ double name(double x);
EBB_EDITOR_1(fabs)
EBB_EDITOR_1(floor)
EBB_EDITOR_1(ceil)
EBB_EDITOR_1(rint)
EBB_EDITOR_1(trunc)
EBB_EDITOR_1(sqrt)
EBB_EDITOR_1(exp)
EBB_EDITOR_1(exp2)
EBB_EDITOR_1(log)
EBB_EDITOR_1(log2)
EBB_EDITOR_1(log1p)
EBB_EDITOR_1(tan)
EBB_EDITOR_1(tanh)
EBB_EDITOR_1(tgamma)
#undef EBB_EDITOR_1
__device__ float fmaf(float x, float y, float z);
__device__ double fma(double x, double y, double z);
__device__ float fmaxf(float x, float y);
__device__ int min(int x, int y);
__device__ float fmodf(float x, float y);
__device__ double fmod(double x, double y);
__device__ double pow(double x, double y);

}  // namespace ebb::cuda
