// SPDX-License-Identifier: MIT
#include "ebb/data/readers.h"
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(cifar) {
  using namespace ebb::fuzz;
  const std::string path = file_of(bytes);
  may_fail([&] { use(ebb::read_cifar10({path}).images); });
  may_fail([&] { use(ebb::read_cifar100({path, path}).coarse_labels); });
}
