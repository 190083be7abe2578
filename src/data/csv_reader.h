// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/written_numbers.h"
#include "ebb/data/readers.h"
#include "io/text_file.h"

namespace ebb {

struct CsvLine {
  std::vector<std::string> fields;
  std::int64_t number = 0;  // where it begins; a quoted field may hold line ends
};

// The lines of a CSV file in order, each with as many fields as the first. Fields are text, interpreted by the caller;
// the file may be read twice. It may be gzipped.
class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options);

  const std::string& path() const { return path_; }
  bool has_header() const { return has_header_; }
  const std::vector<std::string>& names() const { return names_; }  // without a header their numbers, from 0
  std::size_t columns() const { return names_.size(); }
  char separator() const { return separator_; }
  char decimal() const { return decimal_; }  // '.' or ','

  void rewind();  // to the first line after the header
  bool next(CsvLine& line);

  bool is_missing(std::string_view field) const;
  std::optional<double> number(std::string_view field) const;  // empty if it is missing or not a number
  std::optional<Amount> amount(std::string_view field) const;  // empty also if it is a plain number
  // "people.csv: line 3, column 2 (height)": the beginning of every error message.
  std::string place(const CsvLine& line, std::size_t column) const;

 private:
  bool read(CsvLine& line);
  bool end_of_line();
  void skip_empty_lines();
  std::size_t after_blanks() const;
  char named_separator();
  std::string plain();
  std::string quoted(std::size_t column);
  bool looks_like_header(const CsvLine& first);
  char find_decimal();

  std::string path_;
  CsvOptions options_;
  io::TextFile file_;
  std::string_view text_;
  char separator_ = ',', decimal_ = '.';
  bool has_header_ = false;
  std::vector<std::string> names_;
  std::size_t at_ = 0, start_ = 0;
  std::int64_t number_ = 1, start_number_ = 1;
};

}  // namespace ebb
