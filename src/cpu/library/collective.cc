// Elements that ranks exchange: how they travel is up to the transport (src/comm).
#include <vector>

#include "backend/collective.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {

void run_collective(const LibraryCall& call) {
  const auto& collective = *static_cast<const RankedCollective*>(call.data.get());
  std::vector<BufferPtr> keep(collective.inputs);
  std::vector<View> given;
  for (std::size_t k = 0; k < keep.size(); ++k) given.push_back(packed(call.inputs[k], keep[k], "collective"));
  LibraryCall dense = call;
  dense.inputs = given;
  collective.run(dense);
}

}  // namespace ebb::cpu
