// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/format_error.h"
#include "io/deflate.h"
#include "io/zip.h"

namespace ebb::io {
namespace {

constexpr std::uint64_t kEnd = 0x06054b50, kWideEnd = 0x06064b50, kWideLocator = 0x07064b50;
constexpr std::uint64_t kCentral = 0x02014b50, kLocal = 0x04034b50;

}  // namespace

std::uint64_t ZipReader::number(std::uint64_t at, int bytes) const {
  const auto all = file_->bytes();
  require(at <= all.size() && all.size() - at >= static_cast<std::uint64_t>(bytes), Error::Kind::io,
          "{}: the zip archive points to byte {}, but the file has {}", file_->path(), at, all.size());
  std::uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i)
    value = value << 8 | static_cast<std::uint64_t>(all[at + static_cast<std::uint64_t>(i)]);
  return value;
}

// The end record is at the end of the file, followed only by a comment of up to 65535 bytes.
void ZipReader::find_directory(std::uint64_t& start, std::uint64_t& size, std::uint64_t& count) const {
  const std::uint64_t length = file_->bytes().size();
  require(length >= 22, Error::Kind::io, "{}: this is not a zip archive, it has only {} bytes", file_->path(), length);
  const std::uint64_t lowest = length - std::min<std::uint64_t>(length, 22 + 65535);
  std::uint64_t end = length - 22;
  while (number(end, 4) != kEnd || number(end + 20, 2) != length - end - 22) {
    require(end > lowest, Error::Kind::io, "{}: this is not a zip archive or it is truncated, its directory is missing",
            file_->path());
    --end;
  }
  count = number(end + 10, 2);
  size = number(end + 12, 4);
  start = number(end + 16, 4);
  require(number(end + 4, 2) == 0 || number(end + 4, 2) == 0xFFFF, Error::Kind::io,
          "{}: zip archives of several parts cannot be read", file_->path());
  if (end >= 20 && number(end - 20, 4) == kWideLocator) {
    const std::uint64_t wide = number(end - 12, 8);
    require(number(wide, 4) == kWideEnd, Error::Kind::io, "{}: the zip archive's 64-bit end record is missing",
            file_->path());
    count = number(wide + 32, 8);
    size = number(wide + 40, 8);
    start = number(wide + 48, 8);
  }
  require(start <= end && size <= end - start, Error::Kind::io,
          "{}: the zip directory of {} bytes at {} is not inside the file of {}", file_->path(), size, start, length);
  require(count <= size / 46, Error::Kind::io, "{}: {} zip entries do not fit a directory of {} bytes", file_->path(),
          count, size);
}

void ZipReader::find_data(Entry& entry) const {
  require(number(entry.header, 4) == kLocal, Error::Kind::io, "{}: zip entry '{}' has no header at byte {}",
          file_->path(), entry.name, entry.header);
  entry.data = entry.header + 30 + number(entry.header + 26, 2) + number(entry.header + 28, 2);
  const std::uint64_t length = file_->bytes().size();
  require(entry.data <= length && entry.compressed <= length - entry.data, Error::Kind::io,
          "{}: zip entry '{}' has {} bytes at {}, but the file has {}", file_->path(), entry.name, entry.compressed,
          entry.data, length);
}

// Overlapping entries are how a small file unpacks to a huge one.
void ZipReader::check_overlaps(std::uint64_t directory) const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->header < b->header; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t next = i + 1 < order.size() ? order[i + 1]->header : directory;
    require(order[i]->data + order[i]->compressed <= next, Error::Kind::io,
            "{}: zip entry '{}' overlaps what comes after it", file_->path(), order[i]->name);
  }
}

ZipReader::ZipReader(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
  std::uint64_t start = 0, size = 0, count = 0;
  find_directory(start, size, count);
  std::uint64_t at = start;
  for (std::uint64_t i = 0; i < count; ++i) {
    require(number(at, 4) == kCentral, Error::Kind::io, "{}: entry {} of the zip directory is damaged", file_->path(),
            i);
    const std::uint64_t flags = number(at + 8, 2), name = number(at + 28, 2), extra = number(at + 30, 2);
    const std::uint64_t comment = number(at + 32, 2);
    require(at + 46 + name + extra + comment <= start + size, Error::Kind::io,
            "{}: entry {} goes past the zip directory", file_->path(), i);
    Entry entry;
    entry.name.assign(reinterpret_cast<const char*>(file_->bytes().data()) + at + 46, name);
    entry.method = static_cast<std::uint16_t>(number(at + 10, 2));
    entry.crc = static_cast<std::uint32_t>(number(at + 16, 4));
    entry.compressed = number(at + 20, 4);
    entry.size = number(at + 24, 4);
    entry.header = number(at + 42, 4);
    // The 64-bit field holds, in this order, those of the three that did not fit.
    for (std::uint64_t field = at + 46 + name, end = field + extra; field + 4 <= end;) {
      const std::uint64_t id = number(field, 2), bytes = number(field + 2, 2);
      require(bytes <= end - field - 4, Error::Kind::io, "{}: zip entry '{}' has a damaged extra field", file_->path(),
              entry.name);
      std::uint64_t next = field + 4;
      for (std::uint64_t* value : {&entry.size, &entry.compressed, &entry.header}) {
        if (id != 1 || *value != kIn64) continue;
        require(next + 8 <= field + 4 + bytes, Error::Kind::io, "{}: zip entry '{}' has a damaged 64-bit field",
                file_->path(), entry.name);
        *value = number(next, 8);
        next += 8;
      }
      field += 4 + bytes;
    }
    require((flags & 1) == 0, Error::Kind::io, "{}: zip entry '{}' is encrypted", file_->path(), entry.name);
    require(entry.method == 0 || entry.method == 8, Error::Kind::io,
            "{}: zip entry '{}' is compressed by method {}; stored (0) and deflated (8) can be read", file_->path(),
            entry.name, entry.method);
    // Deflate compresses at most 1032 : 1, so a larger size is false and would only cost memory.
    require(entry.method == 0 ? entry.size == entry.compressed : entry.size / 1032 <= entry.compressed, Error::Kind::io,
            "{}: zip entry '{}' claims {} bytes out of {}", file_->path(), entry.name, entry.size, entry.compressed);
    find_data(entry);
    entries_.push_back(std::move(entry));
    at += 46 + name + extra + comment;
  }
  check_overlaps(start);
}

std::span<const std::byte> ZipReader::read(const Entry& entry, std::vector<std::byte>& room) const {
  const std::string where = fmt::format("{}: {}", file_->path(), entry.name);
  std::span<const std::byte> bytes = file_->bytes().subspan(entry.data, entry.compressed);
  if (entry.method == 8) {
    room = inflate_raw(bytes, entry.size, where);
    bytes = room;
  }
  const std::uint32_t crc = crc32_of(bytes);
  require(crc == entry.crc, Error::Kind::io, "{}: the bytes are damaged, their checksum is {:08x} and not {:08x}",
          where, crc, entry.crc);
  return bytes;
}

}  // namespace ebb::io
