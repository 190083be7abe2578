// SPDX-License-Identifier: MIT
#include "ranks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "comm/mpi_library.h"
#include "ebb/distributed.h"
#include "ebb/memory.h"
#include "exit.h"

namespace ebb::program {

using distributed::world;

bool leads() { return world().rank() == 0; }

RunFolder open_folder(const std::string& path) {
  RunFolder folder(path, leads() ? RunFolder::Use::writes : RunFolder::Use::reads);
  std::string refusal;
  if (leads()) {
    try {
      folder.lock();
    } catch (const Error& e) {
      refusal = e.what();
    }
  }
  refusal = world().gather_text(refusal)[0];
  if (!refusal.empty()) throw AllRanksFail(refusal);
  return folder;
}

std::int64_t usual_shards() { return comm::launched_by_mpi() ? distributed::DataParallel().shards() : 1; }

void share_threads() {
  int here = 0;
  for (int r = 0; r < world().size(); ++r) here += world().host(r) == world().host(world().rank());
  if (here > 1) set_num_threads(std::max(1, num_threads() / here));
}

std::vector<RankReport> rank_reports() {
  const distributed::Traffic own = world().traffic();
  const nlohmann::json mine{own.waiting, own.moving, own.bytes};
  std::vector<RankReport> all;
  for (const std::string& text : world().gather_text(mine.dump())) {
    const nlohmann::json j = nlohmann::json::parse(text);
    const int rank = static_cast<int>(all.size());
    all.push_back({world().host(rank), j[0].get<double>(), j[1].get<double>(), j[2].get<std::int64_t>()});
  }
  return all;
}

}  // namespace ebb::program
