// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "ebb/distributed/sharded_optimizer.h"
#include "ebb/io.h"

namespace ebb::distributed {

// One checkpoint that all ranks write together, an ordinary file for io::load_checkpoint and any number of ranks.
// `same` is what all ranks have alike, of which each writes its share; metadata and positions are rank 0's. `own` are
// this rank's parts of parameters and of the optimiser's state (ShardedOptimizer::own_state), which go from its memory
// into the file without passing any other rank. The file appears whole or not at all, and an Error is one on all ranks.
// They need the folder in common. A collective.
struct OwnParts {
  std::vector<ShardedOptimizer::StatePart> parameters = {}, optimizer = {};
};
void save_checkpoint(const std::string& path, const io::Checkpoint& same, const OwnParts& own,
                     const io::SaveOptions& options = {}, const World& among = world());

}  // namespace ebb::distributed
