#include "data/csv_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/format_error.h"

namespace ebb {
namespace {

// The separator that the first line has most of, outside quotes; a file of one column has none.
char find_separator(std::string_view text) {
  constexpr std::string_view kinds = ",;\t";
  std::array<std::size_t, kinds.size()> counts{};
  bool inside = false;
  for (char c : text) {
    if (c == '"') inside = !inside;
    if (!inside && (c == '\n' || c == '\r')) break;
    if (const std::size_t kind = kinds.find(c); !inside && kind != std::string_view::npos) ++counts[kind];
  }
  return kinds[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

}  // namespace

CsvReader::CsvReader(const std::string& path, const CsvOptions& options)
    : path_(path), options_(options), file_(io::MappedFile::open(path)) {
  require(options.separator != '"' && options.separator != '\n' && options.separator != '\r',
          "read_csv: the separator must be neither a quote nor a line end");
  text_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  require(!text_.starts_with("\xFF\xFE") && !text_.starts_with("\xFE\xFF"), Error::Kind::io,
          "{}: line 1, column 1: this is UTF-16; save the file as UTF-8", path);
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  separator_ = options.separator != 0 ? options.separator : find_separator(text_.substr(at_));
  start_ = at_;
  CsvLine first;
  require(read(first), Error::Kind::io, "{}: line 1, column 1: the file is empty", path);
  has_header_ = options.header == CsvOptions::Header::yes ||
                (options.header == CsvOptions::Header::detect && looks_like_header(first));
  for (std::size_t i = 0; i < first.fields.size(); ++i) {
    names_.push_back(has_header_ ? first.fields[i] : std::to_string(i));
  }
  if (has_header_) {
    rewind();
    read(first);
    start_ = at_;
    start_number_ = number_;
  }
  rewind();
}

// A word above a number, or a line without any number: the labels of examples are words, too.
bool CsvReader::looks_like_header(const CsvLine& first) {
  const auto is_word = [&](const std::string& field) { return !is_missing(field) && !number(field); };
  CsvLine second;
  const bool more = read(second);
  bool words = false, numbers = false;
  for (std::size_t i = 0; i < first.fields.size(); ++i) {
    const bool word = is_word(first.fields[i]);
    if (word && more && i < second.fields.size() && !is_word(second.fields[i])) return true;
    words |= word;
    numbers |= number(first.fields[i]).has_value();
  }
  return words && !numbers;
}

void CsvReader::rewind() {
  at_ = start_;
  number_ = start_number_;
}

bool CsvReader::next(CsvLine& line) {
  if (!read(line)) return false;
  const std::size_t have = line.fields.size(), need = columns();
  require(have >= need, Error::Kind::io, "{}: the field is missing; this line has {} fields, the first has {}",
          place(line, std::min(have, need - 1)), have, need);
  require(have <= need, Error::Kind::io, "{}: one field too many; this line has {} fields, the first has {}",
          place(line, need), have, need);
  return true;
}

bool CsvReader::is_missing(std::string_view field) const {
  return std::find(options_.missing.begin(), options_.missing.end(), field) != options_.missing.end();
}

std::optional<double> CsvReader::number(std::string_view field) const {
  if (is_missing(field)) return {};
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || end != field.data() + field.size() || error != std::errc{}) return {};
  return value;
}

std::string CsvReader::place(const CsvLine& line, std::size_t column) const {
  return fmt::format("{}: line {}, column {}{}", path_, line.number, column + 1,
                     has_header_ && column < names_.size() ? fmt::format(" ({})", names_[column]) : "");
}

// Records of RFC 4180: fields in quotes may hold separators, line ends and doubled quotes. Empty lines are left out.
bool CsvReader::read(CsvLine& line) {
  while (at_ < text_.size() && end_of_line()) {
  }
  if (at_ >= text_.size()) return false;
  line.number = number_;
  line.fields.clear();
  for (;;) {
    line.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted(line.fields.size() + 1) : plain());
    if (at_ >= text_.size() || end_of_line()) return true;
    ++at_;  // the separator
  }
}

bool CsvReader::end_of_line() {
  std::size_t length = text_[at_] == '\n' ? 1 : text_[at_] == '\r' ? 1 : 0;
  if (length == 0) return false;
  if (text_.substr(at_, 2) == "\r\n") length = 2;
  at_ += length;
  ++number_;
  return true;
}

std::string CsvReader::plain() {
  const std::size_t start = at_;
  while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
  std::string_view field = text_.substr(start, at_ - start);
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!field.empty() && blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && blank(field.back())) field.remove_suffix(1);
  return std::string(field);
}

std::string CsvReader::quoted(std::size_t column) {
  const std::int64_t start = number_;
  std::string field;
  for (++at_;; ++at_) {
    require(at_ < text_.size(), Error::Kind::io, "{}: line {}, column {}: the quoted field has no end", path_, start,
            column);
    if (text_[at_] == '"') {
      if (text_.substr(at_, 2) != "\"\"") break;
      ++at_;
    }
    if (text_[at_] == '\n') ++number_;
    field += text_[at_];
  }
  ++at_;
  if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') {
    fail(Error::Kind::io, "{}: line {}, column {}: '{}' follows the closing quote", path_, number_, column, text_[at_]);
  }
  return field;
}

}  // namespace ebb
