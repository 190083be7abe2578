// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/io.h"
#include "io/new_file.h"

namespace ebb::io {

// Functions of checkpoints in addition to the public class.
struct SafetensorsAccess {
  static std::span<const std::byte> data(const Safetensors& file);  // the bytes after the header
};

// A tensor of a file about to be written, without its elements.
struct NewTensor {
  std::string name;
  DType dtype;
  Shape shape;
};
// Their placement in the file, in file order: wide elements first, so that every tensor is aligned to its element.
std::vector<Safetensors::Entry> placed(std::vector<NewTensor> tensors, const std::string& path);

// A file about to be written: its header is known before any of its bytes are.
struct SafetensorsLayout {
  TensorMap tensors;
  std::vector<Safetensors::Entry> entries;  // in file order
  SafetensorsLayout(const TensorMap& tensors, const std::string& path);
  void write(NewFile& file, const Metadata& metadata, const std::string& path) const;
};

// The beginning of the file: the length of the header and the header, padded.
std::string file_head(const std::vector<Safetensors::Entry>& entries, const Metadata& metadata,
                      const std::string& path);

// Unpadded JSON.
std::string header_text(std::vector<Safetensors::Entry> entries, const Metadata& metadata);

}  // namespace ebb::io
