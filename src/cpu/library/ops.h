// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "backend/call.h"

// The functions behind run_library, run_NAME for each library operation of the op table; attributes and shapes are
// described in graph/node.h. Those of whole tensors are in cpu/library, convolutions and pools in cpu/window, losses
// and attention in cpu/fused.
namespace ebb::cpu {

#define EBB_DECLARE(name, ...) void run_##name(const LibraryCall& call);
EBB_OPS(EBB_SKIP_OP, EBB_SKIP_OP, EBB_SKIP_OP, EBB_SKIP_OP, EBB_SKIP_OP, EBB_DECLARE, EBB_SKIP_OP)
#undef EBB_DECLARE

void run_fp8_matmul(const LibraryCall& call);  // a matmul with options: see calls/fp8_product.h
void run_banded(const LibraryCall& call);      // a weighted_gather with options: see calls/banded.h

// How run_matmul would run it, in one line.
std::string describe_matmul(const LibraryCall& call);

// The operation's name in errors.
inline const char* label_of(const LibraryCall& call) { return call.label ? call.label : info(call.op).name.data(); }

// Throws an Error for the first index (in row-major order) outside [0, size).
void check_indices(const LibraryCall& call, const View& index, std::int64_t size);

}  // namespace ebb::cpu
