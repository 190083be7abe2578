#pragma once
#include "run_config.h"
#include "run_folder.h"

namespace ebb::program {

// Trains from the beginning, or from the folder's checkpoint, to the end: metrics, checkpoints and the report go into
// the folder, what happens is said on the standard output. Throws Interrupted, after saving, when the user stops it.
void run_training(const RunConfig& config, RunFolder& folder, bool resume);

}  // namespace ebb::program
