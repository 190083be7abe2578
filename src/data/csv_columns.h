// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/csv_reader.h"
#include "data/dates.h"

// Kinds of columns of a CSV file and how they become numbers: one decision shared by read_csv and the program's
// tables.
namespace ebb {

// A column as numbers: a number or a date (days since 1970) becomes one, and each of several words becomes one, 1 where
// the field is that word.
struct CsvColumn {
  std::int64_t position = 0;  // in the file, from 0
  std::string name;
  std::vector<std::string> words = {};
  DateOrder dates = DateOrder::none;
  std::string unit = {};  // of all its numbers but 0: "%", "€"; empty: none
  std::int64_t inputs() const { return words.empty() ? 1 : static_cast<std::int64_t>(words.size()); }
};

inline constexpr std::size_t kMostWords = 64, kMostLabels = 1000;

// Statistics of a column.
struct CsvSurvey {
  std::int64_t missing = 0, numbers = 0, words = 0;
  bool whole = true;      // all numbers are integers
  bool counts_up = true;  // every number is one more than the previous one
  double before = 0;      // the last number
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  std::set<std::string> labels;                 // words, and numbers where labels were requested; up to a limit
  std::string first_number, first_word, where;  // the first word that is no amount, if there is one, and its place
  bool written_alike = true;                    // every number (or every amount) is written like the first one
  std::int64_t year_first = 0, day_first = 0, month_first = 0;  // words that are dates in that order
  std::int64_t decimal_commas = 0;                              // words that would be numbers with a decimal comma
  std::int64_t zeros = 0;                                       // numbers that are 0, in every unit
  std::int64_t amounts = 0;                                     // words that are amounts in the unit of the first one
  std::string unit, first_amount;
  double first_value = 0;    // of the first amount
  bool has_amounts = false;  // all words were such amounts, and were added to the numbers
  bool is_empty() const { return numbers + words == 0; }
  bool is_constant() const { return words == 0 ? least == most : numbers == 0 && labels.size() == 1; }
  bool is_index() const { return words + missing == 0 && numbers > 2 && whole && counts_up; }
  // Words that mostly occur once say nothing about other rows.
  bool is_name() const { return words > 9 && 2 * static_cast<std::int64_t>(labels.size()) > words; }
  DateOrder dates() const;  // none unless all words are dates of one order
  bool holds_words() const { return words - amounts > numbers + amounts && dates() == DateOrder::none; }
  bool holds_too_many_words() const { return holds_words() && labels.size() > kMostWords; }
};

inline constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

// Scans the file; numbers of the column `labelled` are labels, too.
std::vector<CsvSurvey> survey_columns(CsvReader& reader, std::size_t labelled = kNoColumn);

// The caller's remedies for a column, as ends of sentences.
struct CsvAdvice {
  const char* name_missing;          // "name it in --missing"
  const char* leave_out;             // "--ignore the column"
  std::string too_many = leave_out;  // where there are too many words, perhaps in several columns
};
// Throws if there are words among numbers, or too many words.
CsvColumn column_of(const CsvReader& reader, std::size_t at, const CsvSurvey& seen, const CsvAdvice& advice);

// A label, independent of spelling: 7, 7.0 and +7 are the same.
std::string label_of(const CsvReader& reader, const std::string& field);
// Numbers before words, each sorted.
std::vector<std::string> in_order(const CsvReader& reader, const std::set<std::string>& labels);

// The number of a field of a column of numbers: plain, or an amount in the column's unit.
std::optional<double> number_of(const CsvReader& reader, const std::string& field, const CsvColumn& column);

// Appends the numbers of a field. A missing number is NaN; a missing or unknown word is all zeros.
void append_numbers(const CsvReader& reader, const CsvLine& line, std::size_t at, const CsvColumn& column,
                    std::vector<double>& out);

}  // namespace ebb
