// SPDX-License-Identifier: MIT
#include "cpu/library.h"

#include "core/format_error.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {
namespace {

using LibraryFn = void (*)(const LibraryCall&);

// One per row of the op table; null if it is not a library call. An unimplemented operation does not link.
constexpr LibraryFn kFunctions[] = {
#define EBB_NONE(...) nullptr,
#define EBB_RUN(name, ...) run_##name,
    EBB_OPS(EBB_NONE, EBB_NONE, EBB_NONE, EBB_NONE, EBB_NONE, EBB_RUN, EBB_NONE)
#undef EBB_NONE
#undef EBB_RUN
};

}  // namespace

void run_library(const LibraryCall& call) {
  const LibraryFn run = kFunctions[static_cast<int>(call.op)];
  require(run != nullptr, "internal: {} is not a library call", info(call.op).name);
  run(call);
}

std::string describe_library(const LibraryCall& call) { return call.op == Op::matmul ? describe_matmul(call) : ""; }

bool has_library(Op op) { return kFunctions[static_cast<int>(op)] != nullptr; }

}  // namespace ebb::cpu
