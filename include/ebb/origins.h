// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

// Some errors depend on the data (an index out of range, a singular matrix) and come when a value is computed, far from
// the line that wrote the operation. With origins on, every operation remembers where it was built, and such an error
// names that line: "gather: index[2] = 9 is outside [0, 5) (built at train.cc:31)". For debugging: building takes
// several times longer. The environment variable EBB_ORIGINS=1 turns it on from the start.
//
// Lines of C++ come from the program's debugging information (compile with -g) by way of the tool addr2line; without
// either the text names the program and the address.
void set_origins(bool on);  // for operations built from now on, in all threads

}  // namespace ebb
