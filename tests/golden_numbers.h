// SPDX-License-Identifier: MIT
#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "source_folder.h"

// Reads a file written by a make_golden.py, "optim/golden/schedules.txt" for example: lines of a name and numbers;
// lines of one name are consecutive.
namespace ebb::testing {

inline std::map<std::string, std::vector<std::vector<double>>> golden(const std::string& file) {
  std::ifstream in(source_folder() / "tests" / file);
  if (!in) throw std::runtime_error("tests/" + file + " is missing");
  std::map<std::string, std::vector<std::vector<double>>> all;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<double> numbers;
    for (double x; words >> x;) numbers.push_back(x);
    all[name].push_back(std::move(numbers));
  }
  return all;
}

}  // namespace ebb::testing
