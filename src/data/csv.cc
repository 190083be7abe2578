// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/format_error.h"
#include "data/csv_columns.h"
#include "ebb/ops/create.h"

namespace ebb {
namespace {

// The indices of the requested columns.
std::vector<std::size_t> choose(const CsvReader& reader, const CsvOptions& o) {
  const std::vector<std::string>& names = reader.names();
  std::vector<std::size_t> chosen;
  if (o.columns.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) chosen.push_back(i);
  }
  for (const std::string& name : o.columns) {
    const auto found = std::find(names.begin(), names.end(), name);
    require(found != names.end(), Error::Kind::io, "{}: there is no column '{}'; there are: {}", reader.path(), name,
            fmt::join(names, ", "));
    const auto again = std::find(found + 1, names.end(), name);
    require(again == names.end(), Error::Kind::io, "{}: columns {} and {} are both called '{}'; give each its own name",
            reader.path(), found - names.begin() + 1, again - names.begin() + 1, name);
    chosen.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return chosen;
}

}  // namespace

Table read_csv(const std::string& path, const CsvOptions& o) {
  require(is_floating(o.dtype), "read_csv: {} cannot hold missing values; read a floating dtype and cast", o.dtype);
  CsvReader reader(path, o);
  const std::vector<std::size_t> chosen = choose(reader, o);
  const std::vector<CsvSurvey> seen = survey_columns(reader);
  std::vector<CsvColumn> columns;
  Table table;
  for (std::size_t at : chosen) {
    columns.push_back(column_of(reader, at, seen[at], {"name it in `missing`", "read other columns"}));
    const CsvColumn& c = columns.back();
    if (c.words.empty()) table.names.push_back(c.name);
    for (const std::string& word : c.words) table.names.push_back(c.name + "=" + word);
  }
  std::vector<double> values;
  std::int64_t rows = 0;
  for (CsvLine line; reader.next(line); ++rows) {
    for (std::size_t k = 0; k < chosen.size(); ++k) append_numbers(reader, line, chosen[k], columns[k], values);
  }
  table.values = tensor_from(values, {rows, static_cast<std::int64_t>(table.names.size())}, o.dtype);
  return table;
}

}  // namespace ebb
