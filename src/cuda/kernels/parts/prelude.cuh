// SPDX-License-Identifier: MIT
// In front of every kernel, printed or written: types, arithmetic, reductions, random numbers, packs. Embedded texts of
// kernels leave it out; Gpu::kernel puts it there once.
#pragma once
#include "cuda/kernels/parts/arithmetic.cuh"
#include "cuda/kernels/parts/functions.cuh"
#include "cuda/kernels/parts/packs.cuh"
#include "cuda/kernels/parts/pairs.cuh"
#include "cuda/kernels/parts/random.cuh"
#include "cuda/kernels/parts/reductions.cuh"
