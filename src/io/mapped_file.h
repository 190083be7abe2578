// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ebb::io {

// A file's bytes, mapped read-only; pages are read when they are accessed.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  explicit MappedFile(const std::string& path) : path_(path) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

// For fuzzers: bytes to use for a path, without opening a file. The address sanitizer detects a read past their end,
// which a mapping answers with zeros up to the end of its page.
struct GivenFile {
  std::string path;
  std::span<const std::byte> bytes;
};
inline GivenFile given_file;

}  // namespace ebb::io
