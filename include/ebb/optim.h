// SPDX-License-Identifier: MIT
#pragma once

// Optimisers, learning rate schedules, what is done to gradients and weights around a step, and minimisers.
#include "ebb/optim/adaptive.h"
#include "ebb/optim/gradients.h"
#include "ebb/optim/layerwise.h"
#include "ebb/optim/minimize.h"
#include "ebb/optim/optimizer.h"
#include "ebb/optim/registry.h"
#include "ebb/optim/schedule.h"
#include "ebb/optim/sgd.h"
