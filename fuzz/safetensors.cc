// SPDX-License-Identifier: MIT
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(safetensors) {
  ebb::fuzz::may_fail([&] {
    const ebb::io::Safetensors file(ebb::fuzz::file_of(bytes));
    for (const auto& entry : file.entries()) {
      ebb::fuzz::may_fail([&] { ebb::fuzz::use(file.tensor(entry.name)); });  // a dtype that Ebb has not
    }
  });
}
