// SPDX-License-Identifier: MIT
#pragma once

namespace ebb::cuda {

// For tests: of rows that are made as exponentials each is made by itself, as those are whose sum is too large, also
// where no product leaves exponentials. Returns what it was before.
bool make_each_row_anew(bool anew);

}  // namespace ebb::cuda
