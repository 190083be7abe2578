// SPDX-License-Identifier: MIT
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(npy) {
  ebb::fuzz::may_fail([&] { ebb::fuzz::use(ebb::io::load_npy(ebb::fuzz::file_of(bytes))); });
}
