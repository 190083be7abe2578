// SPDX-License-Identifier: MIT
#include "ebb/data/readers.h"
#include "files.h"
#include "target.h"

// PNG, JPEG, PPM and PGM: the first bytes decide.
EBB_FUZZ_TARGET(image) {
  ebb::fuzz::may_fail([&] { ebb::fuzz::use(ebb::read_image(ebb::fuzz::file_of(bytes), 1)); });
}
