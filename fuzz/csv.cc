// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ebb/data/readers.h"
#include "files.h"
#include "target.h"

EBB_FUZZ_TARGET(csv) {
  using namespace ebb::fuzz;
  const std::string path = file_of(bytes);
  const bool semicolons = std::find(bytes.begin(), bytes.end(), ';') != bytes.end();
  may_fail([&] { use(ebb::read_csv(path).values); });
  if (!semicolons) return;
  may_fail([&] {
    use(ebb::read_csv(path, {.separator = ';', .header = ebb::CsvOptions::Header::no, .columns = {"0"}}).values);
  });
}
