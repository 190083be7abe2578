// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ebb/io.h"

namespace ebb::io {

// The weights in a folder as written by Hugging Face's libraries: model.safetensors, or several files and
// model.safetensors.index.json, which maps tensors to files.
class WeightFiles {
 public:
  explicit WeightFiles(const std::string& folder);
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  Tensor tensor(const std::string& name) const;

 private:
  std::string folder_;
  std::vector<Safetensors> files_;
  std::map<std::string, std::size_t> file_of_;
};

// Writes them, in files of at most `shard_bytes` (or one tensor). Removes the index of an earlier model.
void save_weight_files(const std::string& folder, const TensorMap& tensors, std::int64_t shard_bytes);

// A small file's text.
std::string text_of_file(const std::string& path);

}  // namespace ebb::io
