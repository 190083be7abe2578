// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "run_folder.h"

// `mpirun -n 4 ebb train`: all ranks train, and rank 0 leads. Only rank 0 prints, tests and writes.
namespace ebb::program {

bool leads();  // also true for a single process

// The leader opens the folder first, and locks it for all ranks: it may have to finish what an interrupted run began.
// If it cannot, all ranks fail.
RunFolder open_folder(const std::string& path);

// The default number of shards per batch: one without a launcher.
std::int64_t usual_shards();

// Divides a host's processors among its ranks.
void share_threads();

// Waiting and transport times of the ranks: a collective, called by all ranks.
struct RankReport {
  std::string host;
  double waiting = 0;  // seconds in which it waited for others
  double moving = 0;   // seconds of transport
  std::int64_t bytes = 0;
};
std::vector<RankReport> rank_reports();

}  // namespace ebb::program
