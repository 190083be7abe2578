// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.h"
#include "io/new_file.h"

namespace ebb::io {

constexpr std::uint64_t kIn64 = 0xFFFFFFFF;  // in a field of 32 bits: "see the 64-bit field"

// A zip archive (APPNOTE 6.3) of stored and deflated entries; 64-bit sizes where needed, no encryption, one disk.
class ZipReader {
 public:
  struct Entry {
    std::string name;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t compressed = 0, size = 0, header = 0;  // bytes, bytes, place of the local header
    std::uint64_t data = 0;                              // place of the bytes
  };

  explicit ZipReader(std::shared_ptr<const MappedFile> file);
  const std::vector<Entry>& entries() const { return entries_; }
  // The entry's bytes, with their checksum verified; they point into the file, or into `room` if they were deflated.
  std::span<const std::byte> read(const Entry& entry, std::vector<std::byte>& room) const;

 private:
  void find_directory(std::uint64_t& start, std::uint64_t& size, std::uint64_t& count) const;
  void find_data(Entry& entry) const;
  void check_overlaps(std::uint64_t directory) const;
  std::uint64_t number(std::uint64_t at, int bytes) const;  // little-endian; past the end is an error

  std::shared_ptr<const MappedFile> file_;
  std::vector<Entry> entries_;
};

class ZipWriter {
 public:
  // From `wide` bytes on, the 64-bit forms are used (tests make it small).
  explicit ZipWriter(NewFile& file, std::uint64_t wide = 0xFFFFFFFF) : file_(file), wide_(wide) {}
  // An entry of two pieces: a header and its elements.
  void add(const std::string& name, std::string_view head, std::span<const std::byte> body, bool compress,
           const std::string& where);
  void finish();

 private:
  NewFile& file_;
  std::uint64_t wide_;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace ebb::io
