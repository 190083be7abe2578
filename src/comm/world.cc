// SPDX-License-Identifier: MIT
#include "ebb/distributed/world.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "comm/group.h"
#include "comm/mpi_library.h"
#include "comm/mpi_transport.h"
#include "core/format_error.h"
#include "ebb/ops/create.h"
#include "ebb/ops/elementwise.h"

namespace ebb::distributed {
namespace {

thread_local const World* world_of_thread = nullptr;

pid_t started_by = 0;
const World* of_process = nullptr;

// Runs at exit, with the program's code. After losing a rank, a world is not shut down in order: that needs everyone.
void end_at_exit(int code, void*) {
  if (::getpid() != started_by || of_process == nullptr) return;  // a forked child is not a rank
  if (of_process->group().end()) return;
  std::fflush(nullptr);
  ::_exit(code == 0 ? 1 : code);
}

World* start() {
  if (!comm::launched_by_mpi()) return new World(world_of_one());
  auto* const all = new World(std::make_shared<detail::Group>(comm::start_mpi()));
  (zeros({2}) + 1).eval();  // what computing needs is constructed now, and destroyed after end_at_exit
  of_process = all;
  started_by = ::getpid();
  ::on_exit(end_at_exit, nullptr);
  return all;
}

}  // namespace

int World::rank() const { return group_->rank(); }
int World::size() const { return group_->size(); }
const std::string& World::host(int rank) const { return group_->host(rank); }
Traffic World::traffic() const { return group_->traffic(); }
void World::barrier() const { group_->barrier(); }
bool World::any(bool mine) const { return group_->any(mine); }
std::vector<std::string> World::gather_text(const std::string& mine) const { return group_->gather_text(mine); }

World world() {
  if (world_of_thread) return *world_of_thread;
  static const World* const process = start();
  return *process;
}

World world_of_one() { return World(std::make_shared<detail::Group>(nullptr)); }

void leave() {
  if (of_process) of_process->group().end();
}

void set_patience(double seconds, double idle) {
  require(seconds > 0 && idle > 0, "set_patience: ranks must wait for a positive time, got {} s and {} s", seconds,
          idle);
  comm::set_patience(seconds, idle);
}

namespace detail {

InWorld::InWorld(const World& world) : before_(world_of_thread) { world_of_thread = &world; }
InWorld::~InWorld() { world_of_thread = before_; }

}  // namespace detail
}  // namespace ebb::distributed
