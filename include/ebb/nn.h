// SPDX-License-Identifier: MIT
#pragma once

// Layers and initialisers. Names, shapes and defaults are those of torch.nn.
#include "ebb/nn/activations.h"
#include "ebb/nn/attention.h"
#include "ebb/nn/conv.h"
#include "ebb/nn/init.h"
#include "ebb/nn/layers.h"
#include "ebb/nn/norm.h"
#include "ebb/nn/parameters.h"
#include "ebb/nn/pool.h"
#include "ebb/nn/recurrent.h"
#include "ebb/nn/sequential.h"
