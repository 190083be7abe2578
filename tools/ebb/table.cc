// SPDX-License-Identifier: MIT
#include "table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "data/csv_reader.h"
#include "ebb/ops/create.h"

namespace ebb::program {
namespace {

using nlohmann::json;

// Columns are identified by name, so a name shared by two would be ambiguous.
void require_own_name(const CsvReader& reader, std::size_t column) {
  const std::vector<std::string>& names = reader.names();
  const std::string called = names[column].empty() ? "without a name" : fmt::format("called '{}'", names[column]);
  for (std::size_t c = 0; c < names.size(); ++c) {
    require(c == column || names[c] != names[column], Error::Kind::io,
            "{}: line 1, column {}: column {} is {}, too; give each its own name", reader.path(),
            std::max(c, column) + 1, std::min(c, column) + 1, called);
  }
}

// The index of a column, if it exists.
std::optional<std::size_t> column_called(const CsvReader& reader, const std::string& name) {
  const auto found = std::find(reader.names().begin(), reader.names().end(), name);
  if (found == reader.names().end()) return {};
  const auto at = static_cast<std::size_t>(found - reader.names().begin());
  require_own_name(reader, at);
  return at;
}

// A field as a note quotes it: without line breaks, and not a whole letter.
std::string in_one_line(std::string field) {
  constexpr std::size_t kMost = 40;
  for (char& c : field) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (field.size() <= kMost) return field;
  std::size_t end = kMost;
  while ((static_cast<unsigned char>(field[end]) & 0xC0) == 0x80) --end;  // not inside of a character of UTF-8
  return field.substr(0, end) + "...";
}

// The index of a column, by name or by number from 1.
std::size_t find_column(const CsvReader& reader, const std::string& wanted, const char* option) {
  const std::vector<std::string>& names = reader.names();
  require(!wanted.empty(), "{}: a column's name is empty; columns without one are numbers from 1 to {}", option,
          names.size());
  if (reader.has_header()) {
    if (const std::optional<std::size_t> found = column_called(reader, wanted)) return *found;
  }
  const bool digits = !wanted.empty() && wanted.size() < 7 && wanted.find_first_not_of("0123456789") == wanted.npos;
  if (digits) {
    const auto number = static_cast<std::size_t>(std::stoul(wanted));
    require(number >= 1 && number <= names.size(), "{} {}: {} has columns 1 to {}", option, wanted, reader.path(),
            names.size());
    return number - 1;
  }
  require(reader.has_header(), "{} {}: {} has no header, so columns are numbers from 1 to {}", option, wanted,
          reader.path(), names.size());
  const std::vector<std::string_view> views(names.begin(), names.end());
  constexpr std::size_t kFew = 12;
  std::string hint = did_you_mean(wanted, views);
  if (hint.empty() && names.size() <= kFew) hint = fmt::format("; it has {}", fmt::join(names, ", "));
  fail(Error::Kind::value, "{} {}: {} has no such column{}", option, wanted, reader.path(), hint);
}

std::string name_of(const CsvReader& reader, std::size_t column) {
  const bool named = reader.has_header() && !reader.names()[column].empty();
  return named ? fmt::format("column {} ({})", column + 1, reader.names()[column])
               : fmt::format("column {}", column + 1);
}

CsvOptions options_of(const std::vector<std::string>& missing) {
  CsvOptions o;
  o.missing.insert(o.missing.end(), missing.begin(), missing.end());
  return o;
}

// The last column. If lines end with separators it is the last one that has a name or values.
std::size_t usual_target(CsvReader& reader) {
  const std::vector<std::string>& names = reader.names();
  const std::size_t last = names.size() - 1;
  std::size_t target = last;
  while (reader.has_header() && target > 0 && names[target].empty()) --target;
  for (CsvLine line; target < last && reader.next(line);) {
    for (std::size_t c = target + 1; c <= last; ++c) {
      if (!line.fields[c].empty()) target = c;
    }
  }
  reader.rewind();
  return target;
}

void require_all_targets(CsvReader& reader, std::size_t target) {
  for (CsvLine line; reader.next(line);) {
    require(!reader.is_missing(line.fields[target]), Error::Kind::io,
            "{}: the target is missing; leave the row out, or choose another --target", reader.place(line, target));
  }
  reader.rewind();
}

// Numbers of many values are measurements, numbers of few values classes: 0 to 9 are digits, 35.2 is a price.
bool is_measured(const CsvSurvey& target) {
  const auto different = static_cast<std::int64_t>(target.labels.size());
  return !target.whole || different > 50 || (different > 20 && 20 * different > target.numbers);
}

// Integers above this are rounded on reading.
constexpr double kExact = 9007199254740992.0;  // 2^53

// Notes on columns that were recognised as something unexpected.
void note_column(const CsvReader& reader, std::size_t at, const CsvSurvey& seen, std::vector<std::string>& notes) {
  const std::string name = name_of(reader, at);
  if (seen.dates() != DateOrder::none) {
    const bool both = seen.month_first == seen.words && seen.day_first == seen.words;
    notes.push_back(fmt::format("{} holds dates, which are read as days since 1970{}", name,
                                both ? "; days and months could be either way round, months are taken as first" : ""));
  } else if (seen.has_amounts) {
    notes.push_back(
        fmt::format("{} holds numbers such as '{}', which is read as {}", name, seen.first_amount, seen.first_value));
  } else if (seen.decimal_commas == seen.words && seen.words > 0) {
    notes.push_back(
        fmt::format("{} holds words such as '{}', which would be numbers without the comma", name, seen.first_word));
  }
  if (seen.whole && std::max(std::abs(seen.least), std::abs(seen.most)) > kExact && seen.numbers > 0) {
    notes.push_back(fmt::format("{} has whole numbers up to {:.4g}, which are rounded to multiples of {:g}", name,
                                seen.most, std::exp2(std::ceil(std::log2(std::abs(seen.most))) - 53)));
  }
  if (seen.is_index()) {
    notes.push_back(fmt::format("{} counts up by one from row to row; --ignore it if it only numbers them", name));
  }
  if (seen.is_name() && seen.dates() == DateOrder::none) {
    notes.push_back(
        fmt::format("{} has {} different words in {} rows, such as '{}', each of which is an input; --ignore it "
                    "if it names the rows",
                    name, seen.labels.size(), seen.words, in_one_line(seen.first_word)));
  }
  if (seen.missing > 0) {
    notes.push_back(fmt::format(
        "{}: {} of {} values are missing{}", name, seen.missing, seen.missing + seen.numbers + seen.words,
        seen.words > 0 && seen.dates() == DateOrder::none ? "" : " and are filled with the mean of the training data"));
  }
}

// How to leave out all columns with too many words: names, tickets and addresses come together.
std::string ignore_wide_columns(const CsvReader& reader, const std::vector<CsvSurvey>& seen,
                                const std::set<std::size_t>& used_or_ignored, const std::vector<std::string>& ignored) {
  std::vector<std::string> wide = ignored;
  for (std::size_t c = 0; c < seen.size(); ++c) {
    if (used_or_ignored.contains(c) || !seen[c].holds_too_many_words()) continue;
    const std::string& name = reader.names()[c];
    const bool sayable = reader.has_header() && !name.empty() && name.find_first_of(", '\"") == name.npos;
    wide.push_back(sayable ? name : std::to_string(c + 1));
  }
  return fmt::format("--ignore {}", fmt::join(wide, ","));
}

// The index in this file of each column of the facts, and of the target.
struct Places {
  std::vector<std::size_t> columns;
  std::size_t target = 0;
};

Places places_by_name(const CsvReader& reader, const TableFacts& facts, bool with_target) {
  require(reader.has_header(), Error::Kind::io,
          "{}: line 1, column 1: there is no header, and the model knows its columns by their names ({}...); add a "
          "header line",
          reader.path(), facts.columns[0].name);
  const std::vector<std::string>& names = reader.names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto find = [&](const std::string& name) {
    const std::optional<std::size_t> found = column_called(reader, name);
    require(found.has_value(), Error::Kind::io, "{}: line 1: there is no column '{}', which the model was trained on{}",
            reader.path(), name, did_you_mean(name, views));
    return *found;
  };
  Places places;
  for (const CsvColumn& c : facts.columns) places.columns.push_back(find(c.name));
  if (with_target) places.target = find(facts.target.name);
  return places;
}

Places places_by_position(const CsvReader& reader, const TableFacts& facts, bool with_target) {
  require(!reader.has_header(), Error::Kind::io,
          "{}: line 1, column 1: there is a header, but the model was trained on a file without one, so its columns "
          "have no names to match; train it on a file with a header, or leave this one's out",
          reader.path());
  const auto have = static_cast<std::int64_t>(reader.columns());
  const bool without = !with_target && have == facts.width - 1;
  require(have == facts.width || without, Error::Kind::io,
          "{}: line 1, column {}: there are {} columns, the model was trained on {}", reader.path(),
          std::min(have, facts.width) + 1, have, facts.width);
  Places places;
  for (const CsvColumn& c : facts.columns) {
    places.columns.push_back(
        static_cast<std::size_t>(c.position - (without && c.position > facts.target.position ? 1 : 0)));
  }
  places.target = static_cast<std::size_t>(facts.target.position);
  return places;
}

}  // namespace

std::int64_t TableFacts::inputs() const {
  std::int64_t n = 0;
  for (const CsvColumn& c : columns) n += c.inputs();
  return n;
}

TableSurvey survey_table(const std::string& path, const TableChoices& choices) {
  CsvReader reader(path, options_of(choices.missing));
  const std::vector<std::string>& names = reader.names();
  require(
      names.size() >= 2, Error::Kind::io,
      "{}: line 1, column 1: one column is the target, so there must be at least two, not {}{}; columns are divided by "
      "commas, semicolons, tabs or |",
      path, names.size(), reader.has_header() ? fmt::format(" ('{}')", names[0]) : "");
  const std::size_t target =
      choices.target.empty() ? usual_target(reader) : find_column(reader, choices.target, "--target");
  std::set<std::size_t> ignored;
  for (const std::string& name : choices.ignore) ignored.insert(find_column(reader, name, "--ignore"));
  require(!ignored.contains(target), "--ignore {}: this column is the target", names[target]);

  require_own_name(reader, target);
  require_all_targets(reader, target);
  const std::vector<CsvSurvey> seen = survey_columns(reader, target);
  const CsvSurvey& labels = seen[target];
  require(!labels.is_empty(), Error::Kind::io, "{}: line 2, column 1: there are no rows below the header", path);
  TableSurvey survey;
  survey.facts.header = reader.has_header();
  survey.facts.width = static_cast<std::int64_t>(names.size());
  survey.facts.missing = choices.missing;
  survey.facts.target = {static_cast<std::int64_t>(target), names[target]};
  survey.facts.target.unit = labels.has_amounts ? labels.unit : "";
  if (!reader.has_header())
    survey.notes.push_back("the first line is an example and no header, so columns go by their numbers");
  if (reader.decimal() == ',') survey.notes.push_back("numbers have decimal commas");
  ignored.insert(target);
  const CsvAdvice advice{"name it in --missing", "--ignore the column",
                         ignore_wide_columns(reader, seen, ignored, choices.ignore)};
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (ignored.contains(c)) continue;
    if (!seen[c].is_empty()) require_own_name(reader, c);
    CsvColumn column = column_of(reader, c, seen[c], advice);
    if (seen[c].is_empty() || seen[c].is_constant()) {
      const bool rounded = !seen[c].is_empty() && seen[c].words == 0 && !seen[c].written_alike;
      survey.notes.push_back(fmt::format("{} is {} in every row{} and is left out", name_of(reader, c),
                                         seen[c].is_empty() ? "empty" : "the same",
                                         rounded ? ", in the 16 digits that are read," : ""));
      continue;
    }
    note_column(reader, c, seen[c], survey.notes);
    survey.facts.columns.push_back(std::move(column));
  }
  require(!survey.facts.columns.empty(), Error::Kind::io,
          "{}: no column is left to learn from: they are the target, ignored, empty or the same in every row "
          "(16 digits of a number are read)",
          path);

  require(labels.labels.size() > 1, Error::Kind::io,
          "{}: the target, {}, is '{}' in every row: there is nothing to learn; choose another --target", path,
          name_of(reader, target), *labels.labels.begin());
  const bool many_numbers = labels.numbers + labels.amounts > labels.words - labels.amounts && is_measured(labels);
  if (choices.task == "regression" || (choices.task == "auto" && many_numbers)) {
    require(labels.words == 0, Error::Kind::io, "{}: '{}' is not a number{}", labels.where, labels.first_word,
            choices.task == "regression" ? ", as --task regression needs them"
                                         : " like other values of the target; correct it, leave the row out, or choose "
                                           "--task classification");
    if (labels.has_amounts) {
      survey.notes.push_back(fmt::format("the target holds numbers such as '{}', which is read as {}",
                                         labels.first_amount, labels.first_value));
    }
    return survey;
  }
  require(labels.labels.size() <= kMostLabels, Error::Kind::io,
          "{}: {} has more than {} different values, too many for classes", path, name_of(reader, target), kMostLabels);
  if (labels.is_name()) {
    survey.notes.push_back(
        fmt::format("the target, {}, has {} different words in {} rows: what a class has in common can be "
                    "learned only where it has several",
                    name_of(reader, target), labels.labels.size(), labels.words));
  }
  survey.classes = in_order(reader, labels.labels);
  return survey;
}

TableRows read_rows(const std::string& path, const TableFacts& facts, const std::vector<std::string>& classes,
                    const RowsWanted& wanted) {
  require(!facts.columns.empty(), Error::Kind::io, "{}: the model was not trained on a table", path);
  CsvReader reader(path, options_of(facts.missing));
  const bool by_name = facts.header;
  Places places = by_name ? places_by_name(reader, facts, wanted.targets && wanted.target.empty())
                          : places_by_position(reader, facts, wanted.targets);
  if (wanted.targets && !wanted.target.empty()) places.target = find_column(reader, wanted.target, "--target");
  TableRows all;
  std::vector<std::size_t> keep;
  for (const std::string& name : wanted.keep) {
    const std::size_t at = find_column(reader, name, "--keep");
    require(std::find(keep.begin(), keep.end(), at) == keep.end(), "--keep {}: this column was named before", name);
    keep.push_back(at);
    std::string called = by_name ? reader.names()[at] : "";
    const bool taken = std::find(all.kept_names.begin(), all.kept_names.end(), called) != all.kept_names.end();
    all.kept_names.push_back(called.empty() || taken ? fmt::format("column {}", at + 1) : std::move(called));
  }

  std::map<std::string, std::int64_t> number;
  for (const std::string& name : classes) number.emplace(name, static_cast<std::int64_t>(number.size()));
  std::vector<double> inputs, values;
  std::vector<std::int64_t> labels, unknown(facts.columns.size());
  std::int64_t rows = 0;
  for (CsvLine line; reader.next(line); ++rows) {
    for (std::size_t c = 0; c < facts.columns.size(); ++c) {
      const std::size_t at = places.columns[c], before = inputs.size();
      append_numbers(reader, line, at, facts.columns[c], inputs);
      require(!std::isinf(inputs.back()), Error::Kind::io,
              "{}: {} is not finite; leave the field empty if it is unknown", reader.place(line, at), line.fields[at]);
      unknown[c] += !facts.columns[c].words.empty() && !reader.is_missing(line.fields[at]) &&
                    std::count(inputs.begin() + static_cast<std::ptrdiff_t>(before), inputs.end(), 1.0) == 0;
    }
    if (!keep.empty()) {
      all.kept.emplace_back();
      for (std::size_t at : keep) all.kept.back().push_back(line.fields[at]);
    }
    if (!wanted.targets) continue;
    const std::string& field = line.fields[places.target];
    require(!reader.is_missing(field), Error::Kind::io, "{}: the target is missing", reader.place(line, places.target));
    if (classes.empty()) {
      const std::optional<double> value = number_of(reader, field, facts.target);
      require(value && std::isfinite(*value), Error::Kind::io, "{}: '{}' is not a finite number",
              reader.place(line, places.target), field);
      values.push_back(*value);
    } else {
      const auto found = number.find(label_of(reader, field));
      require(found != number.end(), Error::Kind::io, "{}: class '{}' is not one of the {} the model knows",
              reader.place(line, places.target), field, classes.size());
      labels.push_back(found->second);
    }
  }
  for (std::size_t c = 0; c < unknown.size(); ++c) {
    if (unknown[c] == 0) continue;
    all.notes.push_back(fmt::format("{}: {} of {} rows have a word that the network was not trained on",
                                    name_of(reader, places.columns[c]), unknown[c], rows));
  }
  all.inputs = from_data(inputs, {rows, facts.inputs()});
  if (wanted.targets) all.targets = classes.empty() ? from_data(values, {rows}) : from_data(labels, {rows});
  return all;
}

namespace {
// Dates as numbers in the file; 0, which old files do not have, is no date. They do not have a unit, either.
json to_json(const CsvColumn& c) {
  return {{"position", c.position},
          {"name", c.name},
          {"words", c.words},
          {"dates", static_cast<int>(c.dates)},
          {"unit", c.unit}};
}
CsvColumn column_from_json(const json& j) {
  const int dates = j.value("dates", 0);
  require(dates >= 0 && dates <= 3, Error::Kind::io, "there is no order of dates {}", dates);
  return {j.at("position"), j.at("name"), j.at("words").get<std::vector<std::string>>(), static_cast<DateOrder>(dates),
          j.value("unit", "")};
}
}  // namespace

json to_json(const TableFacts& facts) {
  json all{{"header", facts.header},
           {"width", facts.width},
           {"missing", facts.missing},
           {"target", to_json(facts.target)},
           {"columns", json::array()}};
  for (const CsvColumn& c : facts.columns) all["columns"].push_back(to_json(c));
  return all;
}

TableFacts table_from_json(const json& all) {
  TableFacts facts;
  facts.header = all.at("header");
  facts.width = all.at("width");
  facts.target = column_from_json(all.at("target"));
  facts.missing = all.value("missing", facts.missing);  // absent from old files
  for (const json& c : all.at("columns")) facts.columns.push_back(column_from_json(c));
  return facts;
}

}  // namespace ebb::program
