// SPDX-License-Identifier: MIT
// Exchange of elements between ranks: the transport (src/comm) decides how they travel.
#include <memory>
#include <utility>
#include <vector>

#include "backend/collective.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {

void run_collective(const LibraryCall& call) {
  const auto& collective = *static_cast<const Collective*>(call.data.get());
  const auto* const ranked = dynamic_cast<const RankedCollective*>(&collective);
  std::vector<BufferPtr> keep(ranked ? ranked->inputs : call.inputs.size());
  std::vector<View> given;
  for (std::size_t k = 0; k < keep.size(); ++k) given.push_back(packed(call.inputs[k], keep[k], "collective"));
  LibraryCall dense = call;
  dense.inputs = given;
  // Data kept alive by a collective that goes on after this call.
  using Kept = std::pair<std::shared_ptr<const void>, std::vector<BufferPtr>>;
  dense.data = std::make_shared<Kept>(call.data, std::move(keep));
  collective.run(dense);
}

}  // namespace ebb::cpu
