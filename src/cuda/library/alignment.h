// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "calls/alignment.h"
#include "cuda/kernels/args/alignment.h"
#include "cuda/library/kernels.h"

// Shared by ctc_loss and rnnt_loss on the host: sizes, the errors of their checks, and arguments.
namespace ebb::cuda {

class AlignmentKernels {
 public:
  AlignmentKernels(const LibraryCall& call, RunMark& mark);
  const char* name() const { return ctc_ ? "ctc_loss" : "rnnt_loss"; }
  bool keep() const { return options_.order >= 1; }  // what gradients need

  // A kernel of these types.
  KernelSource source(const char* text) const;
  // The arguments of a kernel, except those it has besides AlignmentArgs.
  template <class Args>
  Args args() const {
    Args made{};
    static_cast<AlignmentArgs<void, void>&>(made) = shared_args();
    return made;
  }

  std::int64_t steps, samples, classes;
  std::int64_t room;  // most labels of a sample
  bool joined;        // the labels of all samples are concatenated
  std::int64_t kept_bytes() const { return options_.order >= 2 ? sizeof(KeptNumber<true>) : sizeof(KeptNumber<false>); }

 private:
  AlignmentArgs<void, void> shared_args() const;

  const LibraryCall& call_;
  bool ctc_;
  AlignmentCall options_;
  Complaints complaints_;
};

}  // namespace ebb::cuda
