// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::io {

// Whether the path is a pipe, a device or a socket: neither a file nor a folder.
bool is_stream(const std::string& path);

// A file that appears completely or not at all: written under a temporary name in the target's folder, and renamed by
// commit once its bytes are on the disk. Removed if there is no commit. A link stays a link: its target is replaced.
//
// Only regular files are replaced. Pipes, devices and the process's own descriptors (/dev/stdout, /dev/fd/3) are
// written to directly.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  std::uint64_t written() const { return written_; }
  const std::string& temporary() const { return temporary_; }  // for FilePart
  void commit();
  // Keeps the replaced file under the name `previous`, on file systems that have hard links. At every moment there is a
  // complete file under the target's name.
  void commit_keeping(const std::string& previous);

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
  bool replaces_ = true;  // false: path_ itself is open, and there is no temporary name
  std::uint64_t written_ = 0;
};

// Writes parts of a NewFile, possibly one of another process, before that one commits it.
class FilePart {
 public:
  explicit FilePart(const std::string& temporary);
  ~FilePart();
  FilePart(const FilePart&) = delete;

  void write(std::uint64_t at, const void* data, std::size_t bytes);
  void sync();  // what was written is on the disk

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Appends to a file, created if it does not exist. After an error part of the text may have been added.
void append_to_file(const std::string& path, std::string_view text);

}  // namespace ebb::io
