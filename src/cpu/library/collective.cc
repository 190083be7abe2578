// Elements that ranks exchange: how they travel is up to the transport (src/comm).
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {

void run_collective(const LibraryCall& call) {
  BufferPtr keep;
  const View given = packed(call.inputs[0], keep, "collective");
  LibraryCall dense = call;
  dense.inputs = {&given, 1};
  static_cast<const Collective*>(call.data.get())->run(dense);
}

}  // namespace ebb::cpu
