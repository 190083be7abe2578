// SPDX-License-Identifier: MIT
#pragma once

// Whole models in the formats that others write them in.
#include "ebb/models/llama.h"
