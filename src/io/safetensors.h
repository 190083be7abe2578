#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/io.h"
#include "io/new_file.h"

namespace ebb::io {

// What the checkpoint needs beyond the public class.
struct SafetensorsAccess {
  static std::span<const std::byte> data(const Safetensors& file);  // the bytes after the header
};

// A file about to be written: its header is known before any of its bytes are.
struct SafetensorsLayout {
  std::vector<std::pair<std::string, Tensor>> order;  // as they lie in the file
  SafetensorsLayout(const TensorMap& tensors, const std::string& path);
  std::string header(const Metadata& metadata) const;  // JSON, not padded
  void write(NewFile& file, const Metadata& metadata, const std::string& path) const;
};

// The same header from a file that was read.
std::string header_text(const std::vector<Safetensors::Entry>& entries, const Metadata& metadata);

}  // namespace ebb::io
