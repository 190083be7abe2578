// SPDX-License-Identifier: MIT
#include "io/deflate.h"

#include <zlib.h>

#include <algorithm>

#include "core/format_error.h"

namespace ebb::io {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;   // zlib counts in 32 bits
constexpr std::size_t kBuffer = std::size_t{1} << 18;  // output is collected in pieces of this size

unsigned piece(std::size_t bytes) { return static_cast<unsigned>(std::min(bytes, kPiece)); }

// Owns a z_stream, and frees it on every path.
struct Inflater {
  z_stream z{};
  Inflater(int window_bits, const std::string& where) {
    require(inflateInit2(&z, window_bits) == Z_OK, Error::Kind::io, "{}: zlib cannot start", where);
  }
  ~Inflater() { inflateEnd(&z); }
};
struct Deflater {
  z_stream z{};
  explicit Deflater(const std::string& where) {
    require(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK,
            Error::Kind::io, "{}: zlib cannot start", where);
  }
  ~Deflater() { deflateEnd(&z); }
};

Bytef* input(std::span<const std::byte> bytes) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
}

// Appends one deflate or gzip stream to `out`; returns the bytes of input consumed.
std::size_t inflate_one(std::span<const std::byte> bytes, int window_bits, std::uint64_t limit,
                        const std::string& where, std::vector<std::byte>& out) {
  Inflater inflater(window_bits, where);
  z_stream& z = inflater.z;
  std::size_t used = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    z.next_in = input(bytes.subspan(used));
    z.avail_in = piece(bytes.size() - used);
    const unsigned given = z.avail_in;
    const std::size_t before = out.size();
    // One byte past the limit, to tell "just enough" from "too much".
    const std::size_t room = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, limit - before + 1));
    out.resize(before + room);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    z.avail_out = static_cast<unsigned>(room);
    status = inflate(&z, Z_NO_FLUSH);
    used += given - z.avail_in;
    out.resize(before + room - z.avail_out);
    require(out.size() <= limit, Error::Kind::io, "{}: the compressed data holds more than the {} bytes expected",
            where, limit);
    require(status == Z_OK || status == Z_STREAM_END, Error::Kind::io, "{}: the compressed data is damaged: {}", where,
            z.msg ? z.msg : "it ends too early");
  }
  return used;
}

}  // namespace

std::vector<std::byte> deflate_raw(std::span<const std::byte> bytes, const std::string& where) {
  Deflater deflater(where);
  z_stream& z = deflater.z;
  std::vector<std::byte> out;
  std::size_t used = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    z.next_in = input(bytes.subspan(used));
    z.avail_in = piece(bytes.size() - used);
    const unsigned given = z.avail_in;
    const std::size_t before = out.size();
    out.resize(before + kBuffer);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    z.avail_out = static_cast<unsigned>(kBuffer);
    status = deflate(&z, used + given == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    used += given - z.avail_in;
    out.resize(before + kBuffer - z.avail_out);
    require(status != Z_STREAM_ERROR, Error::Kind::io, "{}: zlib cannot compress", where);
  }
  return out;
}

std::vector<std::byte> inflate_raw(std::span<const std::byte> bytes, std::uint64_t expected, const std::string& where) {
  std::vector<std::byte> out;
  const std::size_t used = inflate_one(bytes, -MAX_WBITS, expected, where, out);
  require(out.size() == expected && used == bytes.size(), Error::Kind::io,
          "{}: {} compressed bytes gave {} bytes, but {} were to give {}", where, used, out.size(), bytes.size(),
          expected);
  return out;
}

std::vector<std::byte> gunzip(std::span<const std::byte> bytes, std::uint64_t limit, const std::string& where) {
  std::vector<std::byte> out;
  require(!bytes.empty(), Error::Kind::io, "{}: the file is empty", where);
  while (!bytes.empty()) bytes = bytes.subspan(inflate_one(bytes, MAX_WBITS + 16, limit, where, out));
  return out;
}

std::vector<std::byte> gunzip_start(std::span<const std::byte> bytes, std::size_t count, const std::string& where) {
  Inflater inflater(MAX_WBITS + 16, where);
  z_stream& z = inflater.z;
  std::vector<std::byte> out(count);
  z.next_in = input(bytes);
  z.avail_in = piece(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<unsigned>(count);
  const int status = inflate(&z, Z_NO_FLUSH);
  require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, Error::Kind::io,
          "{}: the compressed data is damaged: {}", where, z.msg ? z.msg : "it cannot be read");
  out.resize(count - z.avail_out);
  return out;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  uLong crc = before;
  for (std::size_t i = 0; i < bytes.size(); i += kPiece) {
    crc = crc32(crc, input(bytes.subspan(i)), piece(bytes.size() - i));
  }
  return static_cast<std::uint32_t>(crc);
}

std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(bytes)));
}

}  // namespace ebb::io
