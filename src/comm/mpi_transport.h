// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "comm/transport.h"

namespace ebb::comm {

// The processes that a launcher of MPI started: MPI moves the bytes, a Monitor watches over the ranks.
// Starts MPI. Null where this is the only process.
std::unique_ptr<Transport> start_mpi();

// Shared by all transports of this process: see distributed::set_patience.
void set_patience(double seconds, double idle);

}  // namespace ebb::comm
