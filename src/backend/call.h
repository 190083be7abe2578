// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "ebb/dtype.h"
#include "ebb/shape.h"
#include "graph/node.h"

namespace ebb {

// Elements somewhere in memory. data points to the element with index 0 in every dimension.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;
  std::int64_t room = 0;  // unused elements after each line of the dimension with stride 1: a call may write there
};

// Computes one operation of class library. Inputs may be strided, broadcast (stride 0) and empty; outputs are fresh and
// contiguous. `label` names the operation in errors (null: the op's own name).
struct LibraryCall {
  Op op;
  Attrs attrs;
  const char* label = nullptr;
  std::span<const View> inputs;
  std::span<const View> outputs;
  std::shared_ptr<const void> data = nullptr;  // NodeExtra::data
  bool adds = false;  // matmul: the product is added to what its output holds, in the output's dtype
};

// The work of a call of Op::collective, as its data. run() works on host memory: outputs[0] from inputs[0], dense, with
// the other ranks of the program. A device with a transport of its own queries the kind instead.
struct Collective {
  enum class Kind : std::uint8_t { all_gather, all_to_all, broadcast };
  Kind kind = Kind::all_gather;
  virtual ~Collective() = default;
  virtual void run(const LibraryCall& call) const = 0;
};

}  // namespace ebb
