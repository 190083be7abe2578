// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace ebb {

// Something that Ebb uses where it is there.
struct Finding {
  std::string name;   // "NVRTC"
  std::string found;  // what there is; empty where it is missing,
  std::string cure;   // and then this says what it is for and how to get it
};

// Processor, GPUs with their driver, the libraries of CUDA, MPI, and where kernels are kept. Nothing is computed. The
// program (`ebb doctor`) and the Python package (`ebb.__config__`) show it.
std::vector<Finding> find_environment();

}  // namespace ebb
