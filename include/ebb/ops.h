// SPDX-License-Identifier: MIT
#pragma once

// Every operation, by family.
#include "ebb/ops/activation.h"
#include "ebb/ops/arrange.h"
#include "ebb/ops/attention.h"
#include "ebb/ops/conv.h"
#include "ebb/ops/create.h"
#include "ebb/ops/decompose.h"
#include "ebb/ops/elementwise.h"
#include "ebb/ops/fp8.h"
#include "ebb/ops/grid_sample.h"
#include "ebb/ops/image.h"
#include "ebb/ops/index.h"
#include "ebb/ops/linalg.h"
#include "ebb/ops/linear.h"
#include "ebb/ops/norm.h"
#include "ebb/ops/numbers.h"
#include "ebb/ops/pool.h"
#include "ebb/ops/reduce.h"
#include "ebb/ops/shape.h"
#include "ebb/ops/volume.h"
