// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "run_folder.h"

// `mpirun -n 4 ebb train`: all ranks train, and rank 0 leads. It alone speaks, tests and writes.
namespace ebb::program {

bool leads();  // also where there is only this process

// The leader opens the folder first, and locks it for all ranks: it may have to finish what an interrupted run began.
// Where it cannot, all ranks fail.
RunFolder open_folder(const std::string& path);

// How many shards a batch has unless --shards says so: one without a launcher.
std::int64_t usual_shards();

// A host's processors are shared by its ranks.
void share_threads();

// How the ranks got on with each other: a collective, all ranks ask.
struct RankReport {
  std::string host;
  double waiting = 0;  // seconds in which it waited for others
  double moving = 0;   // seconds of transport
  std::int64_t bytes = 0;
};
std::vector<RankReport> rank_reports();

}  // namespace ebb::program
