// SPDX-License-Identifier: MIT
#include "data/csv_columns.h"

#include <algorithm>
#include <cmath>

#include "core/format_error.h"

namespace ebb {

DateOrder CsvSurvey::dates() const {
  if (numbers > 0 || words == 0) return DateOrder::none;
  if (year_first == words) return DateOrder::year_first;
  if (month_first == words) return DateOrder::month_first;  // also if both orders are possible
  return day_first == words ? DateOrder::day_first : DateOrder::none;
}

std::string label_of(const CsvReader& reader, const std::string& field) {
  const std::optional<double> number = reader.number(field);
  return number ? fmt::format("{}", *number) : field;
}

std::vector<std::string> in_order(const CsvReader& reader, const std::set<std::string>& labels) {
  std::vector<std::string> all(labels.begin(), labels.end());
  std::stable_sort(all.begin(), all.end(), [&](const std::string& a, const std::string& b) {
    const auto x = reader.number(a), y = reader.number(b);
    return x && y ? *x < *y : x.has_value() && !y.has_value();
  });
  return all;
}

std::vector<CsvSurvey> survey_columns(CsvReader& reader, std::size_t labelled) {
  std::vector<CsvSurvey> all(reader.columns());
  for (CsvLine line; reader.next(line);) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      const std::string& field = line.fields[c];
      CsvSurvey& seen = all[c];
      if (reader.is_missing(field)) {
        ++seen.missing;
        continue;
      }
      const std::optional<double> number = reader.number(field);
      if (number) {
        if (++seen.numbers == 1) {
          seen.first_number = field;
        } else {
          seen.counts_up &= *number == seen.before + 1;
          seen.written_alike &= field == seen.first_number;
        }
        seen.before = *number;
        seen.whole &= std::floor(*number) == *number;
        seen.least = std::min(seen.least, *number);
        seen.most = std::max(seen.most, *number);
      } else {
        if (++seen.words == 1) {
          seen.first_word = field;
          seen.where = reader.place(line, c);
        }
        seen.year_first += days_of(field, DateOrder::year_first).has_value();
        seen.day_first += days_of(field, DateOrder::day_first).has_value();
        seen.month_first += days_of(field, DateOrder::month_first).has_value();
        seen.decimal_commas += has_decimal_comma(field);
      }
      if ((!number || c == labelled) && seen.labels.size() <= kMostLabels) seen.labels.insert(label_of(reader, field));
    }
  }
  reader.rewind();
  return all;
}

CsvColumn column_of(const CsvReader& reader, std::size_t at, const CsvSurvey& seen, const CsvAdvice& advice) {
  CsvColumn column{static_cast<std::int64_t>(at), reader.names()[at]};
  if (seen.words == 0) return column;
  column.dates = seen.dates();
  if (column.dates != DateOrder::none) return column;
  // A word among numbers is a mistake in the file rather than a name for something.
  const char* const commas =
      seen.decimal_commas > 0 ? ": it has a decimal comma, and other numbers of the file have a point" : "";
  require(seen.numbers < seen.words, Error::Kind::io, "{}: '{}' is not a number{}; correct it, {}, or {}", seen.where,
          seen.first_word, commas, advice.name_missing, advice.leave_out);
  require(seen.labels.size() <= kMostWords, Error::Kind::io,
          "{}: '{}' is one of more than {} different words, too many to learn from; {}", seen.where, seen.first_word,
          kMostWords, advice.leave_out);
  column.words = in_order(reader, seen.labels);
  return column;
}

void append_numbers(const CsvReader& reader, const CsvLine& line, std::size_t at, const CsvColumn& column,
                    std::vector<double>& out) {
  const std::string& field = line.fields[at];
  if (!column.words.empty()) {
    const std::string label = label_of(reader, field);
    for (const std::string& word : column.words) out.push_back(word == label ? 1.0 : 0.0);
    return;
  }
  if (reader.is_missing(field)) {
    out.push_back(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const bool dates = column.dates != DateOrder::none;
  const std::optional<double> value = dates ? days_of(field, column.dates) : reader.number(field);
  require(value.has_value(), Error::Kind::io, "{}: '{}' is not a {}", reader.place(line, at), field,
          dates ? "date like the others" : "number");
  out.push_back(*value);
}

}  // namespace ebb
