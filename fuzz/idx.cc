// SPDX-License-Identifier: MIT
#include "ebb/data/readers.h"
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(idx) {
  ebb::fuzz::may_fail([&] { ebb::fuzz::use(ebb::read_idx(ebb::fuzz::file_of(bytes))); });
}
