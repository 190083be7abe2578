#pragma once
#include "ebb/tensor.h"

namespace ebb {

// y, which must be 1 or −1 everywhere; else evaluating it is an Error that begins with `label`.
Tensor checked_sign(const Tensor& y, const char* label);

}  // namespace ebb
