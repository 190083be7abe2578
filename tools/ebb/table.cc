#include "table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "data/csv_reader.h"
#include "ebb/ops/create.h"

namespace ebb::program {
namespace {

constexpr std::size_t kMostWords = 64, kMostClasses = 1000;

using nlohmann::json;

// A label, however it is written: 7, 7.0 and +7 are one class.
std::string label_of(const CsvReader& reader, const std::string& field) {
  const std::optional<double> number = reader.number(field);
  return number ? fmt::format("{}", *number) : field;
}

// Where a column is, by its name or by its number from 1.
std::size_t find_column(const CsvReader& reader, const std::string& wanted, const char* option) {
  const std::vector<std::string>& names = reader.names();
  if (reader.has_header()) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
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
  fail(Error::Kind::value, "{} {}: {} has no such column{}", option, wanted, reader.path(),
       did_you_mean(wanted, views));
}

// What a column holds.
struct Seen {
  std::int64_t numbers = 0, words = 0;
  bool whole = true;                // all numbers are integers
  std::set<std::string> different;  // labels, up to a limit
  std::string first_word, where;    // where the first word is
};

std::vector<Seen> look_through(CsvReader& reader, std::size_t target) {
  std::vector<Seen> all(reader.columns());
  CsvLine line;
  std::int64_t rows = 0;
  for (; reader.next(line); ++rows) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      const std::string& field = line.fields[c];
      require(c != target || !reader.is_missing(field), Error::Kind::io,
              "{}: the target is missing; leave the row out, or choose another --target", reader.place(line, c));
      if (reader.is_missing(field)) continue;
      Seen& seen = all[c];
      const std::optional<double> number = reader.number(field);
      ++(number ? seen.numbers : seen.words);
      if (number && std::floor(*number) != *number) seen.whole = false;
      if (!number && seen.words == 1) {
        seen.first_word = field;
        seen.where = reader.place(line, c);
      }
      const bool keep = c == target ? seen.different.size() <= kMostClasses : !number;
      if (keep && seen.different.size() <= kMostClasses) seen.different.insert(label_of(reader, field));
    }
  }
  require(rows > 0, Error::Kind::io, "{}: line 2, column 1: there are no rows below the header", reader.path());
  reader.rewind();
  return all;
}

// Numbers of many values are measured, numbers of few values count classes: 0 to 9 are digits, 35.2 is a price.
bool is_measured(const Seen& target) {
  const auto different = static_cast<std::int64_t>(target.different.size());
  return target.words == 0 && (!target.whole || different > 50 || (different > 20 && 20 * different > target.numbers));
}

std::vector<std::string> in_order(const CsvReader& reader, const std::set<std::string>& labels) {
  std::vector<std::string> all(labels.begin(), labels.end());
  std::stable_sort(all.begin(), all.end(), [&](const std::string& a, const std::string& b) {
    const auto x = reader.number(a), y = reader.number(b);
    return x && y ? *x < *y : x.has_value() && !y.has_value();
  });
  return all;
}

Column input_column(const CsvReader& reader, std::size_t at, const Seen& seen) {
  Column column{static_cast<std::int64_t>(at), reader.names()[at], {}};
  if (seen.words == 0) return column;
  // A word among numbers is a mistake in the file rather than a name for something.
  require(seen.numbers < seen.words, Error::Kind::io, "{}: '{}' is not a number; correct it, or --ignore the column",
          seen.where, seen.first_word);
  require(seen.different.size() <= kMostWords, Error::Kind::io,
          "{}: '{}' is one of more than {} different words, too many to learn from; --ignore the column", seen.where,
          seen.first_word, kMostWords);
  column.words = in_order(reader, seen.different);
  return column;
}

// Where each column of the facts, and the target, is in this file.
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
    const auto found = std::find(names.begin(), names.end(), name);
    require(found != names.end(), Error::Kind::io,
            "{}: line 1: there is no column '{}', which the model was trained on{}", reader.path(), name,
            did_you_mean(name, views));
    return static_cast<std::size_t>(found - names.begin());
  };
  Places places;
  for (const Column& c : facts.columns) places.columns.push_back(find(c.name));
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
  for (const Column& c : facts.columns) {
    places.columns.push_back(
        static_cast<std::size_t>(c.position - (without && c.position > facts.target.position ? 1 : 0)));
  }
  places.target = static_cast<std::size_t>(facts.target.position);
  return places;
}

void append_input(const CsvReader& reader, const CsvLine& line, std::size_t at, const Column& column,
                  std::vector<float>& out) {
  const std::string& field = line.fields[at];
  if (column.words.empty()) {
    const std::optional<double> number = reader.number(field);
    require(number || reader.is_missing(field), Error::Kind::io, "{}: '{}' is not a number", reader.place(line, at),
            field);
    require(!number || std::isfinite(*number), Error::Kind::io, "{}: {} is not finite", reader.place(line, at), field);
    out.push_back(number ? static_cast<float>(*number) : std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const std::string label = label_of(reader, field);
  for (const std::string& word : column.words) out.push_back(word == label ? 1.0f : 0.0f);
}

}  // namespace

std::int64_t TableFacts::inputs() const {
  std::int64_t n = 0;
  for (const Column& c : columns) n += c.inputs();
  return n;
}

TableSurvey survey_table(const std::string& path, const TableChoices& choices) {
  CsvReader reader(path, {});
  const std::vector<std::string>& names = reader.names();
  require(names.size() >= 2, Error::Kind::io,
          "{}: line 1, column 1: one column is the target, so there must be at least two, not {}", path, names.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto first = static_cast<std::size_t>(std::find(names.begin(), names.end(), names[c]) - names.begin());
    require(first == c, Error::Kind::io, "{}: line 1, column {}: column {} is called '{}', too; give each its own name",
            path, c + 1, first + 1, names[c]);
  }
  const std::size_t target =
      choices.target.empty() ? names.size() - 1 : find_column(reader, choices.target, "--target");
  std::set<std::size_t> ignored;
  for (const std::string& name : choices.ignore) ignored.insert(find_column(reader, name, "--ignore"));
  require(!ignored.contains(target), "--ignore {}: this column is the target", names[target]);

  const std::vector<Seen> seen = look_through(reader, target);
  TableSurvey survey;
  survey.facts.header = reader.has_header();
  survey.facts.width = static_cast<std::int64_t>(names.size());
  survey.facts.target = {static_cast<std::int64_t>(target), names[target], {}};
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (c != target && !ignored.contains(c)) survey.facts.columns.push_back(input_column(reader, c, seen[c]));
  }
  require(!survey.facts.columns.empty(), "--ignore leaves no column of {} to learn from", path);

  const Seen& labels = seen[target];
  const bool measured = choices.task == "regression" || (choices.task == "auto" && is_measured(labels));
  if (measured) {
    require(labels.words == 0, Error::Kind::io, "{}: '{}' is not a number, as --task regression needs them",
            labels.where, labels.first_word);
    return survey;
  }
  require(labels.different.size() <= kMostClasses, Error::Kind::io,
          "{}: column {} ({}) has more than {} different values, too many for classes", path, target + 1, names[target],
          kMostClasses);
  survey.classes = in_order(reader, labels.different);
  return survey;
}

TableRows read_rows(const std::string& path, const TableFacts& facts, const std::vector<std::string>& classes,
                    bool with_targets, const std::string& target) {
  require(!facts.columns.empty(), Error::Kind::io, "{}: the model was not trained on a table", path);
  CsvReader reader(path, {.header = CsvOptions::Header::detect});
  const bool by_name = facts.header;
  Places places = by_name ? places_by_name(reader, facts, with_targets && target.empty())
                          : places_by_position(reader, facts, with_targets);
  if (with_targets && !target.empty()) places.target = find_column(reader, target, "--target");

  std::map<std::string, std::int64_t> number;
  for (const std::string& name : classes) number.emplace(name, static_cast<std::int64_t>(number.size()));
  std::vector<float> inputs, values;
  std::vector<std::int64_t> labels;
  std::int64_t rows = 0;
  for (CsvLine line; reader.next(line); ++rows) {
    for (std::size_t c = 0; c < facts.columns.size(); ++c) {
      append_input(reader, line, places.columns[c], facts.columns[c], inputs);
    }
    if (!with_targets) continue;
    const std::string& field = line.fields[places.target];
    require(!reader.is_missing(field), Error::Kind::io, "{}: the target is missing", reader.place(line, places.target));
    if (classes.empty()) {
      const std::optional<double> value = reader.number(field);
      require(value && std::isfinite(*value), Error::Kind::io, "{}: '{}' is not a finite number",
              reader.place(line, places.target), field);
      values.push_back(static_cast<float>(*value));
    } else {
      const auto found = number.find(label_of(reader, field));
      require(found != number.end(), Error::Kind::io, "{}: class '{}' is not one of the {} the model knows",
              reader.place(line, places.target), field, classes.size());
      labels.push_back(found->second);
    }
  }
  TableRows all{from_data(inputs, {rows, facts.inputs()}), {}};
  if (with_targets) all.targets = classes.empty() ? from_data(values, {rows}) : from_data(labels, {rows});
  return all;
}

json to_json(const TableFacts& facts) {
  const auto column = [](const Column& c) {
    return json{{"position", c.position}, {"name", c.name}, {"words", c.words}};
  };
  json all{
      {"header", facts.header}, {"width", facts.width}, {"target", column(facts.target)}, {"columns", json::array()}};
  for (const Column& c : facts.columns) all["columns"].push_back(column(c));
  return all;
}

TableFacts table_from_json(const json& all) {
  const auto column = [](const json& j) {
    return Column{j.at("position"), j.at("name"), j.at("words").get<std::vector<std::string>>()};
  };
  TableFacts facts{all.at("header"), all.at("width"), {}, column(all.at("target"))};
  for (const json& c : all.at("columns")) facts.columns.push_back(column(c));
  return facts;
}

}  // namespace ebb::program
