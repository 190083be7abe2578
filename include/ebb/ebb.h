#pragma once

// All of Ebb.
#include "ebb/autograd.h"
#include "ebb/backward.h"
#include "ebb/data.h"
#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/gradcheck.h"
#include "ebb/io.h"
#include "ebb/losses.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"
#include "ebb/second_order.h"
#include "ebb/shape.h"
#include "ebb/tensor.h"
