// SPDX-License-Identifier: MIT
#pragma once

// Every loss, by family. (By name: ebb/losses/registry.h.)
#include "ebb/losses/alignment.h"
#include "ebb/losses/binary.h"
#include "ebb/losses/classification.h"
#include "ebb/losses/contrastive.h"
#include "ebb/losses/distance.h"
#include "ebb/losses/divergence.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/losses/linear_heads.h"
#include "ebb/losses/linear_loss.h"
#include "ebb/losses/margin.h"
#include "ebb/losses/preference.h"
#include "ebb/losses/probabilistic.h"
#include "ebb/losses/ranking.h"
#include "ebb/losses/reduction.h"
#include "ebb/losses/regression.h"
#include "ebb/losses/robust.h"
#include "ebb/losses/routing.h"
#include "ebb/losses/segmentation.h"
