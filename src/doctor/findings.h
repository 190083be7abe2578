// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace ebb {

// A component that Ebb uses if it is present.
struct Finding {
  std::string name;   // "NVRTC"
  std::string found;  // what there is; empty if it is missing,
  std::string cure;   // and then this says what it is for and how to get it
};

// Processor, GPUs with their driver, the libraries of CUDA, MPI, and the folder of cached kernels. Computes nothing.
// Shown by the program (`ebb doctor`) and the Python package (`ebb.__config__`).
std::vector<Finding> find_environment();

}  // namespace ebb
