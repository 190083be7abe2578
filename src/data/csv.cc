#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "ebb/data/readers.h"
#include "ebb/ops/create.h"
#include "io/mapped_file.h"

namespace ebb {
namespace {

struct Line {
  std::vector<std::string> fields;
  std::int64_t number = 0;  // where it begins; a quoted field may hold line ends
};

// Records of RFC 4180: fields in quotes may hold separators, line ends and doubled quotes.
class LineReader {
 public:
  LineReader(std::string_view text, char separator, const std::string& path)
      : text_(text), separator_(separator), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  bool next(Line& line) {
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

 private:
  bool end_of_line() {
    std::size_t length = text_[at_] == '\n' ? 1 : text_[at_] == '\r' ? 1 : 0;
    if (length == 0) return false;
    if (text_.substr(at_, 2) == "\r\n") length = 2;
    at_ += length;
    ++number_;
    return true;
  }

  std::string plain() {
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
    std::string_view field = text_.substr(start, at_ - start);
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!field.empty() && blank(field.front())) field.remove_prefix(1);
    while (!field.empty() && blank(field.back())) field.remove_suffix(1);
    return std::string(field);
  }

  std::string quoted(std::size_t column) {
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
    require(at_ >= text_.size() || text_[at_] == separator_ || text_[at_] == '\n' || text_[at_] == '\r',
            Error::Kind::io, "{}: line {}, column {}: '{}' follows the closing quote", path_, number_, column,
            text_[at_]);
    return field;
  }

  std::string_view text_;
  char separator_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::int64_t number_ = 1;
};

std::optional<double> number_in(std::string_view field, const CsvOptions& o) {
  if (std::find(o.missing.begin(), o.missing.end(), field) != o.missing.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || end != field.data() + field.size() || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) return {};
  return value;
}

// The numbers of the columns that are wanted.
std::vector<std::size_t> choose(const std::vector<std::string>& names, const CsvOptions& o, const std::string& path) {
  std::vector<std::size_t> chosen;
  if (o.columns.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) chosen.push_back(i);
  }
  for (const std::string& name : o.columns) {
    const auto found = std::find(names.begin(), names.end(), name);
    require(found != names.end(), Error::Kind::io, "{}: there is no column '{}'; there are: {}", path, name,
            fmt::join(names, ", "));
    chosen.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return chosen;
}

}  // namespace

Table read_csv(const std::string& path, const CsvOptions& o) {
  require(is_floating(o.dtype), "read_csv: {} cannot hold missing values; read a floating dtype and cast", o.dtype);
  require(o.separator != '"' && o.separator != '\n' && o.separator != '\r',
          "read_csv: the separator must be neither a quote nor a line end");
  const auto file = io::MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  LineReader reader(text, o.separator, path);
  Line line;
  require(reader.next(line), Error::Kind::io, "{}: the file is empty", path);

  const bool words = std::any_of(line.fields.begin(), line.fields.end(),
                                 [&](const std::string& field) { return !number_in(field, o).has_value(); });
  const bool header = o.header == CsvOptions::Header::yes || (o.header == CsvOptions::Header::detect && words);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < line.fields.size(); ++i) names.push_back(header ? line.fields[i] : std::to_string(i));
  const std::vector<std::size_t> chosen = choose(names, o, path);

  std::vector<double> values;
  std::int64_t rows = 0;
  for (bool more = header ? reader.next(line) : true; more; more = reader.next(line), ++rows) {
    require(line.fields.size() == names.size(), Error::Kind::io, "{}: line {} has {} fields, the first has {}", path,
            line.number, line.fields.size(), names.size());
    for (std::size_t column : chosen) {
      const auto value = number_in(line.fields[column], o);
      require(value.has_value(), Error::Kind::io, "{}: line {}, column {} ({}): '{}' is no number", path, line.number,
              column + 1, names[column], line.fields[column]);
      values.push_back(*value);
    }
  }
  Table table;
  for (std::size_t column : chosen) table.names.push_back(names[column]);
  table.values = tensor_from(values, {rows, static_cast<std::int64_t>(chosen.size())}, o.dtype);
  return table;
}

}  // namespace ebb
