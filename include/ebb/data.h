// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/data/digits.h"
#include "ebb/data/loader.h"
#include "ebb/data/packing.h"
#include "ebb/data/readers.h"
#include "ebb/data/text.h"
#include "ebb/data/tokenizer.h"
