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
};

// Computes one operation of class library. Inputs may be strided, broadcast (stride 0) and empty; outputs are fresh and
// contiguous. `label` names the operation in errors (null: the op's own name).
struct LibraryCall {
  Op op;
  Attrs attrs;
  const char* label = nullptr;
  std::span<const View> inputs;
  std::span<const View> outputs;
  std::shared_ptr<const void> data;  // NodeExtra::data
};

// What a call of Op::collective does, as its data. run() works on host memory, with the other ranks of the program:
// outputs from inputs, dense; of kind `lists` any number of both, else outputs[0] from inputs[0]. A device with a
// transport of its own asks for the kind instead.
struct Collective {
  enum class Kind : std::uint8_t { all_gather, all_to_all, broadcast, lists };
  Kind kind = Kind::all_gather;
  std::size_t inputs = 1;  // how many; what follows them is only computed before
  virtual ~Collective() = default;
  virtual void run(const LibraryCall& call) const = 0;
};

}  // namespace ebb
