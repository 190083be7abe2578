// SPDX-License-Identifier: MIT
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(npz) {
  ebb::fuzz::may_fail([&] { ebb::fuzz::use(ebb::io::load_npz(ebb::fuzz::file_of(bytes))); });
}
