// SPDX-License-Identifier: MIT
#pragma once

// Programs of several processes: the world, collectives, data-parallel training, sharded optimisers, and layers whose
// parameters are divided among ranks.
#include "ebb/distributed/checkpoint.h"
#include "ebb/distributed/collectives.h"
#include "ebb/distributed/data_parallel.h"
#include "ebb/distributed/sharded_optimizer.h"
#include "ebb/distributed/tensor_parallel.h"
#include "ebb/distributed/world.h"
