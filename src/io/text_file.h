// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.h"

namespace ebb::io {

// The text of a file: mapped, unpacked if it is gzipped, or read from a pipe. A file that is not text is an Error,
// whatever its name says.
class TextFile {
 public:
  explicit TextFile(const std::string& path);
  TextFile(const TextFile&) = delete;
  std::string_view text() const { return text_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<std::byte> bytes_;  // unpacked, or read from a pipe
  std::string_view text_;
};

// Position of the first byte that is not part of a UTF-8 character; npos if there is none.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace ebb::io
