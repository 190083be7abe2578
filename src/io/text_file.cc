// SPDX-License-Identifier: MIT
#include "io/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/format_error.h"
#include "io/deflate.h"
#include "io/new_file.h"

namespace ebb::io {
namespace {

constexpr std::uint64_t kMostUnpacked = std::uint64_t{1} << 36;  // 64 GiB: a file that unpacks to more is a mistake

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Formats that are passed by mistake instead of text, by their first bytes.
struct Format {
  std::string_view start;
  const char *what, *remedy;
};
constexpr Format kFormats[] = {
    {"PK\x03\x04", "a ZIP archive", "save a spreadsheet as CSV, unpack anything else"},
    {"\xD0\xCF\x11\xE0", "an Excel file", "save it as CSV"},
    {"PAR1", "a Parquet file", "save it as CSV"},
    {"\x28\xB5\x2F\xFD", "compressed by zstd", "unpack it first"},
    {"BZh", "compressed by bzip2", "unpack it first"},
    {"\xFD\x37zXZ", "compressed by xz", "unpack it first"},
    {"\xFF\xFE", "UTF-16", "save the file as UTF-8"},
    {"\xFE\xFF", "UTF-16", "save the file as UTF-8"},
    {"\x89PNG", "a picture", "pictures are read from a folder for each class"},
    {"\xFF\xD8\xFF", "a picture", "pictures are read from a folder for each class"},
    {"\x93NUMPY", "an .npy file", "save it as CSV"},
    {"%PDF-", "a PDF file", "extract its text first"},
};

// Text has no zero bytes, and few control characters: tabs, line ends, form feeds, escapes of terminals.
void require_text(std::string_view text, const std::string& path) {
  const std::string_view begin = text.substr(0, std::size_t{1} << 16);
  std::size_t controls = 0;
  for (const char c : begin) {
    const auto byte = static_cast<unsigned char>(c);
    controls += byte < 0x20 && (byte < '\b' || byte > '\r') && byte != 0x1B;
  }
  const std::size_t zero = text.find('\0');
  const bool has_zero = zero != std::string_view::npos, is_binary = has_zero || 32 * controls > begin.size();
  for (const Format& f : kFormats) {
    // PAR1 and BZh may be words.
    const bool is_word = f.start == "PAR1" || f.start == "BZh";
    if (text.starts_with(f.start) && (is_binary || !is_word))
      fail(Error::Kind::io, "{}: this is {}, not text; {}", path, f.what, f.remedy);
  }
  require(!is_binary, Error::Kind::io, "{}: this is not text: {}", path,
          has_zero ? fmt::format("byte {} is zero", zero) : "it is full of control characters");
}

// Everything that comes through a pipe.
std::vector<std::byte> read_stream(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, Error::Kind::io, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct Closing {
    int descriptor;
    ~Closing() { ::close(descriptor); }
  } const closing{descriptor};
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::byte> all;
  for (;;) {
    const std::size_t before = all.size();
    all.resize(before + kPiece);
    const ssize_t n = ::read(descriptor, all.data() + before, kPiece);
    all.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, Error::Kind::io, "{}: cannot be read after {} bytes: {}", path, before, std::strerror(errno));
    if (n == 0) return all;
    if (before == 0 && !is_gzip(all)) require_text(as_text(all), path);  // /dev/zero has no end
  }
}

}  // namespace

TextFile::TextFile(const std::string& path) {
  std::span<const std::byte> bytes;
  if (is_stream(path)) {
    bytes_ = read_stream(path);
    bytes = bytes_;
  } else {
    file_ = MappedFile::open(path);
    bytes = file_->bytes();
  }
  if (is_gzip(bytes)) {
    bytes_ = gunzip(bytes, kMostUnpacked, path);
    bytes = bytes_;
  }
  text_ = as_text(bytes);
  require_text(text_, path);
}

// The well-formed sequences of Unicode's table 3-7: shortest forms, no surrogates, at most U+10FFFF.
std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const auto follows = [&](std::size_t at, unsigned least = 0x80, unsigned most = 0xBF) {
    return byte(at) >= least && byte(at) <= most;
  };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned first = byte(at);
    if (first < 0x80) {
      ++at;
    } else if (first >= 0xC2 && first <= 0xDF && follows(at + 1)) {
      at += 2;
    } else if (first >= 0xE0 && first <= 0xEF &&
               follows(at + 1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(at + 2)) {
      at += 3;
    } else if (first >= 0xF0 && first <= 0xF4 &&
               follows(at + 1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(at + 2) &&
               follows(at + 3)) {
      at += 4;
    } else {
      return at;
    }
  }
  return std::string_view::npos;
}

}  // namespace ebb::io
