#pragma once
#include "backend/backend.h"

namespace ebb::cuda {

// The backend of a GPU, made when it is first asked for; null where there is no such GPU (or no driver).
Backend* backend(int index);

}  // namespace ebb::cuda
