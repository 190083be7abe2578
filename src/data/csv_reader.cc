// SPDX-License-Identifier: MIT
#include "data/csv_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/format_error.h"
#include "data/dates.h"
#include "data/written_numbers.h"

namespace ebb {
namespace {

// The separator most frequent in the first line, outside quotes; a file of one column has none. Decimal commas between
// semicolons or tabs separate nothing: 1,5;2,5;3,5 are three numbers.
char find_separator(std::string_view text) {
  constexpr std::string_view kinds = ",;\t|";
  std::array<std::size_t, kinds.size()> counts{}, decimals{};  // decimals: fields with a decimal comma
  std::array<std::size_t, kinds.size()> starts{};              // of the current field
  bool inside = false;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : '\n';
    if (c == '"') inside = !inside;
    const bool end = at == text.size() || (!inside && (c == '\n' || c == '\r'));
    for (std::size_t kind = 0; !inside && kind < kinds.size(); ++kind) {
      if (c != kinds[kind] && !end) continue;
      counts[kind] += !end;
      decimals[kind] += decimal_comma_number(text.substr(starts[kind], at - starts[kind])).has_value();
      starts[kind] = at + 1;
    }
    if (end) break;
  }
  for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
    if (counts[kind] > 0 && counts[0] > 0 && counts[0] == decimals[kind]) return kinds[kind];
  }
  return kinds[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

// Names are written to JSON files, which are UTF-8.
void require_utf8(std::string_view text, const std::string& path) {
  const std::size_t at = io::find_invalid_utf8(text);
  if (at == std::string_view::npos) return;
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  fail(Error::Kind::io,
       "{}: line {}, byte {}: 0x{:02X} is not UTF-8; convert the file, for example from Latin-1 by "
       "`iconv -f latin1 -t utf-8`",
       path, line, at - (start == std::string_view::npos ? 0 : start + 1) + 1, static_cast<unsigned char>(text[at]));
}

}  // namespace

CsvReader::CsvReader(const std::string& path, const CsvOptions& options)
    : path_(path), options_(options), file_(path), text_(file_.text()) {
  require(options.separator != '"' && options.separator != '\n' && options.separator != '\r',
          "read_csv: the separator must be neither a quote nor a line end");
  require(options.decimal == 0 || options.decimal == '.' || options.decimal == ',',
          "read_csv: decimal must be '.' or ',', got '{}'", options.decimal);
  require_utf8(text_, path);
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  skip_empty_lines();
  const char named = named_separator();
  separator_ = options.separator != 0 ? options.separator : named != 0 ? named : find_separator(text_.substr(at_));
  start_number_ = number_;
  start_ = at_;
  decimal_ = options.decimal != 0 ? options.decimal : find_decimal();
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

// Spreadsheets write a first line that names the separator: sep=;
char CsvReader::named_separator() {
  const std::string_view line = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
  if (line.size() != 5 || !line.starts_with("sep=") || line[4] == '"') return 0;
  const char named = line[4];
  at_ += line.size();
  skip_empty_lines();
  return named;
}

// A word above a number or a date, or a line without any number: the labels of examples are words, too.
bool CsvReader::looks_like_header(const CsvLine& first) {
  const auto is_number = [&](const std::string& field) {
    return number(field) || amount(field) || days_of(field, DateOrder::year_first) ||
           days_of(field, DateOrder::day_first) || days_of(field, DateOrder::month_first);
  };
  const auto is_word = [&](const std::string& field) { return !is_missing(field) && !is_number(field); };
  CsvLine second;
  const bool more = read(second);
  bool words = false, numbers = false;
  for (std::size_t i = 0; i < first.fields.size(); ++i) {
    const bool word = is_word(first.fields[i]);
    if (word && more && i < second.fields.size() && !is_word(second.fields[i])) return true;
    words |= word;
    numbers |= is_number(first.fields[i]);
  }
  return words && !numbers;
}

// A comma is the decimal mark if numbers need it to be (1.234,50) and none needs a point to be (1.5). Between other
// separators than commas it is, too, if commas make numbers and no number has a point. Between commas a field such as
// "1,234" is rather a thousand.
char CsvReader::find_decimal() {
  const bool between_commas = separator_ == ',';
  if (text_.find(between_commas ? '"' : ',') == text_.npos) return '.';
  bool commas = false, points = false, comma_needed = false, point_needed = false;
  for (CsvLine line; !point_needed && read(line);) {
    for (const std::string& field : line.fields) {
      const bool has_point = field.find('.') != field.npos;
      if (!has_point && field.find(',') == field.npos) continue;
      const std::optional<Amount> with_comma = amount_of(field, ','), with_point = amount_of(field, '.');
      const bool is_point_number = has_point && (plain_number(field) || with_point);
      comma_needed |= with_comma && with_comma->decimal == ',';
      commas |= decimal_comma_number(field) || (with_comma && !with_point);
      points |= is_point_number && (plain_number(field) || !with_comma);
      point_needed |= (with_point && with_point->decimal == '.') || (is_point_number && !with_comma);
    }
  }
  rewind();
  if (point_needed) return '.';
  return comma_needed || (commas && !points && !between_commas) ? ',' : '.';
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
  if (std::find(options_.missing.begin(), options_.missing.end(), field) != options_.missing.end()) return true;
  if (field.find_first_of("nN") > 1) return false;
  const std::optional<double> value = plain_number(field);  // NAN, -nan, nan(ind)
  return value && std::isnan(*value);
}

std::optional<double> CsvReader::number(std::string_view field) const {
  if (is_missing(field)) return {};
  if (decimal_ == '.') return plain_number(field);
  if (field.find(',') != field.npos) return decimal_comma_number(field);
  return field.find('.') == field.npos ? plain_number(field) : std::nullopt;
}

std::optional<Amount> CsvReader::amount(std::string_view field) const {
  return is_missing(field) || number(field) ? std::nullopt : amount_of(field, decimal_);
}

std::string CsvReader::place(const CsvLine& line, std::size_t column) const {
  return fmt::format("{}: line {}, column {}{}", path_, line.number, column + 1,
                     has_header_ && column < names_.size() ? fmt::format(" ({})", names_[column]) : "");
}

// Records of RFC 4180: fields in quotes may hold separators, line ends and doubled quotes; blanks around quotes are not
// part of a field. Empty lines are skipped.
bool CsvReader::read(CsvLine& line) {
  skip_empty_lines();
  if (at_ >= text_.size()) return false;
  line.number = number_;
  line.fields.clear();
  for (;;) {
    const std::size_t begins = after_blanks();
    const bool quotes = begins < text_.size() && text_[begins] == '"';
    if (quotes) at_ = begins;
    line.fields.push_back(quotes ? quoted(line.fields.size() + 1) : plain());
    if (at_ >= text_.size() || end_of_line()) return true;
    ++at_;  // the separator
  }
}

// Skips lines of blanks only; a tab is a blank unless it is the separator.
void CsvReader::skip_empty_lines() {
  while (at_ < text_.size()) {
    const std::size_t start = at_;
    at_ = after_blanks();
    if (at_ < text_.size() && end_of_line()) continue;
    if (at_ < text_.size()) at_ = start;
    return;
  }
}

std::size_t CsvReader::after_blanks() const {
  std::size_t at = at_;
  while (at < text_.size() && text_[at] != separator_ && (text_[at] == ' ' || text_[at] == '\t')) ++at;
  return at;
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
  at_ = after_blanks();
  if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') {
    fail(Error::Kind::io, "{}: line {}, column {}: '{}' follows the closing quote", path_, number_, column, text_[at_]);
  }
  return field;
}

}  // namespace ebb
