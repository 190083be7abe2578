// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/runtime/kernel_source.h"

namespace ebb::testing {

// Texts of kernels, compiled for the emulated device by a C++ compiler: many per call, since a call costs as much as a
// dozen kernels. Compiled kernels are kept in the build folder, keyed by their inputs; equal texts share one.
class KernelStore {
 public:
  using Source = cuda::KernelSource;
  // Returns 0 on success; without args, their size in bytes.
  using Run = int (*)(unsigned blocks, unsigned threads, unsigned shared, const void* args, unsigned long long seed);

  static KernelStore& get();
  static std::string key_of(const std::string& bytes);

  // Compiles those of the texts (without the prelude) that are not there yet, in parallel batches.
  void prepare(const std::vector<Source>& sources);
  // A kernel of a text, see Run. Null if the text does not compile or has no such kernel.
  void* kernel(const Source& source, const std::string& name);

  // A file of consecutive texts: reads it, or appends to it (each text once per process).
  static std::vector<Source> read_texts(const std::string& path);
  static void add_text(const std::string& path, const Source& source);

  // All texts that kernels were requested of, by the first of their names.
  struct Asked {
    Source source;
    std::string kernel;
  };
  std::vector<Asked> asked();

  long compiled_alone() const { return compiled_alone_; }  // texts that were in no batch

 private:
  KernelStore();
  struct Place {
    std::string library;
    int number;
  };
  bool compile(const std::vector<Source>& sources);
  void read_index(const std::string& path);

  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, Place> places_;     // by the text's key
  std::map<std::string, void*> libraries_;  // opened
  std::map<std::string, Asked> asked_;      // by the text's key
  long compiled_alone_ = 0;
};

}  // namespace ebb::testing
