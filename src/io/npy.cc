// SPDX-License-Identifier: MIT
#include "io/npy.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "ebb/io.h"
#include "ebb/ops/shape.h"
#include "graph/node.h"
#include "io/elements.h"
#include "io/mapped_file.h"
#include "io/new_file.h"

namespace ebb::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestNpyHeader = 1 << 16;  // an array's takes about a hundred bytes, a record's is not read

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> sizes;
};

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header read() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
      require(seen && !*seen, Error::Kind::io, "{}: the .npy header has {} '{}'", where_,
              seen ? "twice the key" : "an unknown key", key);
      *seen = true;
      if (seen == &descr) {
        require(peek() != '[', Error::Kind::io, "{}: an array of records cannot be read, only one of numbers", where_);
        header.descr = string();
      } else if (seen == &order) {
        header.fortran_order = boolean();
      } else {
        header.sizes = tuple();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    require(peek() == '\0', Error::Kind::io, "{}: the .npy header continues after its end", where_);
    require(descr && order && shape, Error::Kind::io, "{}: the .npy header has no '{}'", where_,
            !descr   ? "descr"
            : !order ? "fortran_order"
                     : "shape");
    return header;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    require(accept(c), Error::Kind::io, "{}: the .npy header has no '{}' at position {}", where_, c, at_);
  }
  std::string string() {
    const char quote = peek();
    require(quote == '\'' || quote == '"', Error::Kind::io, "{}: the .npy header has no string at position {}", where_,
            at_);
    const std::size_t end = text_.find(quote, at_ + 1);
    require(end != std::string_view::npos && end - at_ < 64, Error::Kind::io,
            "{}: the .npy header has an unreadable string at position {}", where_, at_);
    std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return inside;
  }
  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail(Error::Kind::io, "{}: 'fortran_order' in the .npy header is neither True nor False", where_);
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(number());
      require(sizes.size() <= 64, Error::Kind::io, "{}: the .npy header has more than 64 sizes", where_);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    const char first = peek();
    require(first >= '0' && first <= '9', Error::Kind::io, "{}: the .npy header has no size at position {}", where_,
            at_);
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const bool over = __builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
                        __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value);
      require(!over, Error::Kind::io, "{}: the .npy header has a size beyond 64 bits", where_);
    }
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers like this
    return value;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

std::optional<FileType> type_of(std::string_view kind) {
  static constexpr std::pair<std::string_view, FileType> types[] = {
      {"f8", FileType::f64},  {"f4", FileType::f32}, {"f2", FileType::f16}, {"V2", FileType::bf16},
      {"i8", FileType::i64},  {"i4", FileType::i32}, {"i2", FileType::i16}, {"i1", FileType::i8},
      {"u8", FileType::u64},  {"u4", FileType::u32}, {"u2", FileType::u16}, {"u1", FileType::u8},
      {"b1", FileType::bool_}};
  for (const auto& [name, type] : types) {
    if (name == kind) return type;
  }
  return {};
}

std::string_view kind_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::bf16:
      return "<V2";
    case DType::i64:
      return "<i8";
    case DType::i32:
      return "<i4";
    case DType::u8:
      return "|u1";
    case DType::bool_:
      return "|b1";
  }
  return "";
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require(text.size() >= 10 && text.substr(0, 6) == kMagic, Error::Kind::io,
          "{}: this is not a .npy file, it does not begin with \\x93NUMPY", where);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(file[i]); };
  const std::size_t version = byte(6);
  require(version >= 1 && version <= 3, Error::Kind::io, "{}: .npy version {} is unknown, 1 to 3 can be read", where,
          version);
  const std::size_t before = version == 1 ? 10 : 12;
  require(text.size() >= before, Error::Kind::io, "{}: the file ends inside its .npy header", where);
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  require(length <= kLongestNpyHeader, Error::Kind::io, "{}: a .npy header of {} bytes is longer than the {} allowed",
          where, length, kLongestNpyHeader);
  require(length <= text.size() - before, Error::Kind::io, "{}: the file ends inside its .npy header", where);
  const Header header = HeaderReader(text.substr(before, length), where).read();

  require(header.descr.size() == 3, Error::Kind::io, "{}: there is no dtype for NumPy's '{}'", where, header.descr);
  const char order = header.descr[0];
  const std::optional<FileType> type = type_of(std::string_view(header.descr).substr(1));
  require(type && (order == '<' || order == '>' || order == '|' || order == '='), Error::Kind::io,
          "{}: there is no dtype for NumPy's '{}'", where, header.descr);

  std::vector<std::uint64_t> sizes = header.sizes;
  if (header.fortran_order) sizes = {sizes.rbegin(), sizes.rend()};
  const Shape shape = shape_from_file(sizes, where);
  const std::uint64_t expected = static_cast<std::uint64_t>(shape.numel()) * size_of(*type);
  const std::span<const std::byte> elements = file.subspan(before + length);
  require(elements.size() == expected, Error::Kind::io, "{}: shape [{}] of '{}' takes {} bytes, the file has {}", where,
          fmt::join(header.sizes, ", "), header.descr, expected, elements.size());
  Tensor tensor = tensor_from_elements(elements, *type, shape, order == '>', where);
  if (header.fortran_order && shape.rank() > 1) {
    std::vector<std::int64_t> axes(static_cast<std::size_t>(shape.rank()));
    std::iota(axes.rbegin(), axes.rend(), 0);
    tensor = permute(tensor, axes).eval();
  }
  return tensor;
}

std::string npy_header(DType dtype, const Shape& shape) {
  std::string sizes = fmt::format("{}", fmt::join(shape.begin(), shape.end(), ", "));
  if (shape.rank() == 1) sizes += ',';
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", kind_of(dtype), sizes);
  // The elements begin at a multiple of 64, so that they can be mapped.
  const std::size_t unpadded = 10 + dict.size() + 1;
  dict += std::string((64 - unpadded % 64) % 64, ' ') + '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(dict.size() & 255), static_cast<char>(dict.size() >> 8)};
  return out + dict;
}

Tensor load_npy(const std::string& path) { return parse_npy(MappedFile::open(path)->bytes(), path); }

void save_npy(const std::string& path, const Tensor& tensor) {
  require(tensor.defined(), "save_npy: the tensor for {} has no value", path);
  const HostElements elements = host_elements(tensor);
  NewFile file(path);
  file.write(npy_header(tensor.dtype(), tensor.shape()));
  file.write(elements.bytes.data(), elements.bytes.size());
  file.commit();
}

}  // namespace ebb::io
