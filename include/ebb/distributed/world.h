// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Programs of several processes. Each is a rank; together they are the world, which a launcher starts:
//
//   mpirun -n 4 my_program
//
// Every rank runs the same program. Open MPI is opened at run time, and a program that no launcher started is a world
// of one, in which every collective returns what it was given.
namespace ebb::distributed {

namespace detail {
class Group;
}

// Cost of this rank's collectives so far.
struct Traffic {
  std::int64_t collectives = 0;
  std::int64_t bytes = 0;  // handed to other ranks
  double waiting = 0;      // seconds until all ranks had arrived
  double moving = 0;       // seconds of transport after that
};

// The ranks that take part in a collective. Copies refer to the same world.
class World {
 public:
  int rank() const;  // of this process, from 0
  int size() const;
  const std::string& host(int rank) const;
  Traffic traffic() const;

  // Immediate: these wait for all ranks.
  void barrier() const;
  bool any(bool mine) const;                                            // is it true on at least one rank?
  std::vector<std::string> gather_text(const std::string& mine) const;  // of every rank, on every rank

  explicit World(std::shared_ptr<detail::Group> group) : group_(std::move(group)) {}
  detail::Group& group() const { return *group_; }

 private:
  std::shared_ptr<detail::Group> group_;
};

// The world of this process. The first call starts MPI if a launcher started the program.
//
// A rank that dies, stops, hangs or cannot be reached is noticed by all others within ten seconds: collectives throw an
// Error that names the rank and its host, and the program ends with a non-zero code.
World world();

// A world of this process alone, in which collectives return what they are given.
World world_of_one();

// Ends this rank's part in the world, after the collectives that it has created. A program that exits does this by
// itself.
void leave();

// How long ranks wait in a collective for one that is alive but does not arrive, before they give up: `idle` seconds
// if it does nothing meanwhile (uses no processor time, moves no bytes, waits for no disk), `seconds` if it works. For
// the whole world; rank 0 decides.
void set_patience(double seconds, double idle = 8);

}  // namespace ebb::distributed
