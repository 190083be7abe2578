// SPDX-License-Identifier: MIT
#pragma once
#include "backend/backend.h"

namespace ebb::cpu {

// The processor as a device: steps are done when they return, and its memory is the host's.
Backend& backend();

}  // namespace ebb::cpu
