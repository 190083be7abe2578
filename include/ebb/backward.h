// SPDX-License-Identifier: MIT
#pragma once

// The gradient rule of every differentiable operation, by family.
#include "ebb/backward/activation.h"
#include "ebb/backward/attention.h"
#include "ebb/backward/conv.h"
#include "ebb/backward/elementwise.h"
#include "ebb/backward/index.h"
#include "ebb/backward/linalg.h"
#include "ebb/backward/linear.h"
#include "ebb/backward/norm.h"
#include "ebb/backward/pool.h"
#include "ebb/backward/reduce.h"
#include "ebb/backward/shape.h"
