// SPDX-License-Identifier: MIT
// Attention of halves in one kernel forward and two backward: scores live in registers, products are those of warps.
//   forward    a block has some rows and goes through the columns, 64 at a time. A row keeps its largest score m
//              and its share of Σ e^(s − m); a larger score scales what was added before.
//   backward   P = e^(s − lse) is made again, twice: by blocks of rows for δ = Σ do·o and dq = scale·ds·k, then by
//              blocks of columns, which take P and ds transposed, for dv = Pᵀ·do and dk = scale·dsᵀ·q, with
//              ds = P∘(do·vᵀ − δ). That is 7 products where atomic additions to dq would do with 5, but everything
//              is added in order.
// Registers of one product are those of a factor of the next: nothing but inputs goes through shared memory. Weights
// and ds are rounded to the dtype of the inputs for products; everything else is f32. A row's results depend on its own
// columns alone, in an order that no other size changes.
#pragma once
#include "cuda/kernels/parts/attention_by_warps.cuh"

#include "cuda/kernels/parts/attention_kernels.cuh"
