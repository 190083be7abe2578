// SPDX-License-Identifier: MIT
#include "core/format_error.h"
#include "io/deflate.h"
#include "io/zip.h"

namespace ebb::io {
namespace {

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 255);
}

constexpr std::uint64_t kDate = 0x21, kUtf8 = 0x800;  // 1 January 1980: equal tensors give equal files

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head, std::span<const std::byte> body, bool compress,
                    const std::string& where) {
  require(name.size() <= 0xFFFF, Error::Kind::io, "{}: a name of {} bytes is too long for a zip archive", where,
          name.size());
  const std::span<const std::byte> start(reinterpret_cast<const std::byte*>(head.data()), head.size());
  const std::uint32_t crc = crc32_of(body, crc32_of(start));
  const std::uint64_t size = head.size() + body.size(), place = file_.written();
  std::vector<std::byte> packed;
  if (compress) {
    std::vector<std::byte> whole(start.begin(), start.end());
    whole.insert(whole.end(), body.begin(), body.end());
    packed = deflate_raw(whole, where);
  }
  const std::uint64_t stored = compress ? packed.size() : size;
  const bool wide = size >= wide_ || stored >= wide_ || place >= wide_;

  const auto common = [&](std::string& out, bool central) {
    put(out, wide ? 45 : 20, 2);  // the version needed to read it
    put(out, kUtf8, 2);
    put(out, compress ? 8 : 0, 2);
    put(out, 0, 2);
    put(out, kDate, 2);
    put(out, crc, 4);
    put(out, wide ? kIn64 : stored, 4);
    put(out, wide ? kIn64 : size, 4);
    put(out, name.size(), 2);
    put(out, wide ? (central ? 28 : 20) : 0, 2);
  };
  const auto wide_field = [&](std::string& out, bool central) {
    if (!wide) return;
    put(out, 1, 2);
    put(out, central ? 24 : 16, 2);
    put(out, size, 8);
    put(out, stored, 8);
    if (central) put(out, place, 8);
  };

  std::string local;
  put(local, 0x04034b50, 4);
  common(local, false);
  local += name;
  wide_field(local, false);
  file_.write(local);
  if (compress) {
    file_.write(packed.data(), packed.size());
  } else {
    file_.write(head);
    file_.write(body.data(), body.size());
  }

  put(directory_, 0x02014b50, 4);
  put(directory_, wide ? 45 : 20, 2);
  common(directory_, true);
  put(directory_, 0, 2);  // comment
  put(directory_, 0, 2);  // disk
  put(directory_, 0, 2);
  put(directory_, 0, 4);
  put(directory_, wide ? kIn64 : place, 4);
  directory_ += name;
  wide_field(directory_, true);
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t start = file_.written(), size = directory_.size();
  const bool wide = start >= wide_ || size >= wide_ || count_ >= 0xFFFF;
  std::string end = directory_;
  if (wide) {
    const std::uint64_t place = start + size;
    put(end, 0x06064b50, 4);
    put(end, 44, 8);
    put(end, 45, 2);
    put(end, 45, 2);
    put(end, 0, 8);  // disks
    for (std::uint64_t value : {count_, count_, size, start}) put(end, value, 8);
    put(end, 0x07064b50, 4);
    put(end, 0, 4);
    put(end, place, 8);
    put(end, 1, 4);
  }
  put(end, 0x06054b50, 4);
  put(end, 0, 4);
  for (int twice = 0; twice < 2; ++twice) put(end, wide ? 0xFFFF : count_, 2);
  put(end, wide ? kIn64 : size, 4);
  put(end, wide ? kIn64 : start, 4);
  put(end, 0, 2);
  file_.write(end);
}

}  // namespace ebb::io
