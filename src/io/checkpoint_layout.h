// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ebb/io.h"
#include "io/safetensors.h"

namespace ebb::io {

// A checkpoint about to be written: all offsets are known before any element is, so that several processes can write it
// together.
class CheckpointLayout {
 public:
  // Step, positions and metadata are those of the checkpoint; the tensors are given by their names in the file.
  CheckpointLayout(const std::string& path, const Checkpoint& checkpoint, std::vector<NewTensor> tensors);

  const std::vector<Safetensors::Entry>& entries() const { return entries_; }  // counted from data_begin
  std::uint64_t data_begin() const;
  // The beginning of the file, from the checksums of the tensors: data_begin() bytes.
  std::string head(const std::map<std::string, std::uint32_t>& checksums) const;

 private:
  std::string path_;
  Metadata metadata_;
  std::vector<Safetensors::Entry> entries_;
};

TensorMap named_tensors(const Checkpoint& checkpoint);  // under their names in the file
void commit_checkpoint(NewFile& file, const std::string& path, const SaveOptions& options);
inline constexpr const char *kParametersPrefix = "parameters.", *kOptimizerPrefix = "optimizer.";

}  // namespace ebb::io
