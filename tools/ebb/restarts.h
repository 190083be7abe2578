// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace ebb::program {

// `ebb train --launcher "mpirun -n 4" --restart-on-failure 5`: this process does not train. It starts the ranks and,
// when they fail, starts them again from the last checkpoint.
struct Restarts {
  std::string launcher;  // words before the program's own; empty: one process
  int most = 0;
  bool wanted() const { return most > 0 || !launcher.empty(); }
};

// Starts this program's own command line without the options above. `folder` is the run's.
void train_with_restarts(const Restarts& restarts, const std::string& folder);

}  // namespace ebb::program
