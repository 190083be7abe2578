#pragma once
#include <string>

#include "cuda/library/kernels.h"
#include "graph/loss_calls.h"

// What the kernels of ctc_loss and rnnt_loss share: numbers of wide range, the checks of a sample's lengths and labels,
// and arguments.
namespace ebb::cuda {

class AlignmentKernels {
 public:
  AlignmentKernels(const LibraryCall& call, RunMark& mark);
  const char* name() const { return ctc_ ? "ctc_loss" : "rnnt_loss"; }
  bool keep() const { return options_.order >= 1; }  // what gradients need

  // Before a kernel: "struct Call", which its struct Args extends, and what works on it.
  std::string text() const;
  Words words() const;  // of struct Call

  std::int64_t steps, samples, classes;
  std::int64_t room;                                                         // most labels of a sample
  bool joined;                                                               // the labels of all samples lie in a row
  std::int64_t kept_bytes() const { return options_.order >= 2 ? 24 : 16; }  // of struct Kept

 private:
  const LibraryCall& call_;
  bool ctc_;
  AlignmentCall options_;
  const void* errors_;
  std::int64_t step_;
};

}  // namespace ebb::cuda
