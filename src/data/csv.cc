#include <algorithm>
#include <limits>
#include <vector>

#include "core/format_error.h"
#include "data/csv_reader.h"
#include "ebb/ops/create.h"

namespace ebb {
namespace {

// The numbers of the columns that are wanted.
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
    chosen.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return chosen;
}

}  // namespace

Table read_csv(const std::string& path, const CsvOptions& o) {
  require(is_floating(o.dtype), "read_csv: {} cannot hold missing values; read a floating dtype and cast", o.dtype);
  CsvReader reader(path, o);
  const std::vector<std::size_t> chosen = choose(reader, o);
  std::vector<double> values;
  std::int64_t rows = 0;
  for (CsvLine line; reader.next(line); ++rows) {
    for (std::size_t column : chosen) {
      const std::string& field = line.fields[column];
      const auto value = reader.is_missing(field) ? std::numeric_limits<double>::quiet_NaN() : reader.number(field);
      require(value.has_value(), Error::Kind::io, "{}: '{}' is not a number", reader.place(line, column), field);
      values.push_back(*value);
    }
  }
  Table table;
  for (std::size_t column : chosen) table.names.push_back(reader.names()[column]);
  table.values = tensor_from(values, {rows, static_cast<std::int64_t>(chosen.size())}, o.dtype);
  return table;
}

}  // namespace ebb
