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

namespace {

void survey_number(CsvSurvey& seen, double number) {
  seen.counts_up &= seen.numbers + seen.amounts == 0 || number == seen.before + 1;
  seen.before = number;
  seen.whole &= std::floor(number) == number;
  seen.least = std::min(seen.least, number);
  seen.most = std::max(seen.most, number);
}

// Whether a word is an amount, in the unit of those before.
bool survey_amount(CsvSurvey& seen, const std::string& field, const std::optional<Amount>& amount) {
  if (!amount || (seen.amounts > 0 && amount->unit != seen.unit)) return false;
  if (seen.amounts == 0) {
    seen.first_amount = field;
    seen.first_value = amount->value;
    seen.unit = amount->unit;
  }
  survey_number(seen, amount->value);
  seen.written_alike &= field == seen.first_amount;
  ++seen.amounts;
  return true;
}

void survey_word(CsvSurvey& seen, const std::string& field, const std::string& place,
                 const std::optional<Amount>& amount) {
  const bool first = seen.words == seen.amounts;  // the first that is no amount
  const bool is_amount = survey_amount(seen, field, amount);
  if (++seen.words == 1 || (first && !is_amount)) {
    seen.first_word = field;
    seen.where = place;
  }
  seen.year_first += days_of(field, DateOrder::year_first).has_value();
  seen.day_first += days_of(field, DateOrder::day_first).has_value();
  seen.month_first += days_of(field, DateOrder::month_first).has_value();
  seen.decimal_commas += decimal_comma_number(field).has_value();
}

// Words that are all amounts in one unit are numbers. Beside a plain number other than 0 the unit is in doubt: 12 % and
// 0.5.
void settle_amounts(CsvSurvey& seen) {
  const bool doubtful = !seen.unit.empty() && seen.numbers > seen.zeros;
  if (seen.words == 0 || seen.amounts < seen.words || doubtful) return;
  seen.has_amounts = true;
  seen.written_alike &= seen.numbers == 0;
  seen.numbers += seen.words;
  seen.words = 0;
}

}  // namespace

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
        survey_number(seen, *number);
        if (++seen.numbers == 1) seen.first_number = field;
        seen.written_alike &= field == seen.first_number;
        seen.zeros += *number == 0;
      } else {
        survey_word(seen, field, seen.words == seen.amounts ? reader.place(line, c) : "", reader.amount(field));
      }
      if ((!number || c == labelled) && seen.labels.size() <= kMostLabels) seen.labels.insert(label_of(reader, field));
    }
  }
  reader.rewind();
  for (CsvSurvey& seen : all) settle_amounts(seen);
  return all;
}

CsvColumn column_of(const CsvReader& reader, std::size_t at, const CsvSurvey& seen, const CsvAdvice& advice) {
  CsvColumn column{static_cast<std::int64_t>(at), reader.names()[at]};
  if (seen.has_amounts) column.unit = seen.unit;
  if (seen.words == 0) return column;
  column.dates = seen.dates();
  if (column.dates != DateOrder::none) return column;
  // A word among numbers is a mistake in the file rather than a name for something.
  std::string why;
  if (seen.amounts == seen.words) {
    why = fmt::format(" without a unit, as '{}' is", seen.first_number);
  } else if (seen.amounts > 0) {
    why = fmt::format(" like '{}'", seen.first_amount);
  } else if (seen.decimal_commas > 0) {
    why = ": it has a decimal comma, and other numbers of the file have a point";
  }
  require(seen.numbers + seen.amounts < seen.words - seen.amounts, Error::Kind::io,
          "{}: '{}' is not a number{}; correct it, {}, or {}", seen.where, seen.first_word, why, advice.name_missing,
          advice.leave_out);
  require(!seen.holds_too_many_words(), Error::Kind::io,
          "{}: '{}' is one of more than {} different words, too many to learn from; {}", seen.where, seen.first_word,
          kMostWords, advice.too_many);
  column.words = in_order(reader, seen.labels);
  return column;
}

std::optional<double> number_of(const CsvReader& reader, const std::string& field, const CsvColumn& column) {
  if (const std::optional<double> number = reader.number(field)) return number;
  const std::optional<Amount> amount = reader.amount(field);
  return amount && (amount->unit.empty() || amount->unit == column.unit) ? std::optional(amount->value) : std::nullopt;
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
  const std::optional<double> value = dates ? days_of(field, column.dates) : number_of(reader, field, column);
  require(value.has_value(), Error::Kind::io, "{}: '{}' is not a {}", reader.place(line, at), field,
          dates ? "date like the others" : "number");
  out.push_back(*value);
}

}  // namespace ebb
