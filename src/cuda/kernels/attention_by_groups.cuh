// SPDX-License-Identifier: MIT
// attention_by_warps.cuh with products of warpgroups, for rows of 64 or 128 on Hopper.
#pragma once
#include "cuda/kernels/parts/attention_by_groups.cuh"

#include "cuda/kernels/parts/attention_kernels.cuh"
