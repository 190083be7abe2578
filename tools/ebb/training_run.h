// SPDX-License-Identifier: MIT
#pragma once
#include "run_config.h"
#include "run_folder.h"

namespace ebb::program {

// Trains from the beginning, or from the folder's checkpoint, to the end: metrics, checkpoints and the report go into
// the folder, progress to standard output. With `json` standard output is for the result, an object, and progress goes
// to standard error. Throws Interrupted, after saving, when the user stops it.
struct TrainingOptions {
  bool resume = false, json = false;
};
void run_training(const RunConfig& config, RunFolder& folder, const TrainingOptions& options);

}  // namespace ebb::program
