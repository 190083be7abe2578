// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/csv_columns.h"
#include "ebb/tensor.h"

namespace ebb::program {

// How rows of a CSV file become examples. Stored with a model, so that other files are read the same way.
struct TableFacts {
  bool header = false;  // then columns are found by their names, otherwise by their positions
  std::int64_t width = 0;
  std::vector<std::string> missing = {};  // markers of a missing value besides the usual ones
  std::vector<CsvColumn> columns;
  CsvColumn target;
  std::int64_t inputs() const;
};
nlohmann::json to_json(const TableFacts& facts);
TableFacts table_from_json(const nlohmann::json& json);

// The user's options for a table.
struct TableChoices {
  std::string target;                     // a name, or a number from 1; empty: the last column that is not empty
  std::vector<std::string> ignore;        // columns that are not read
  std::string task = "auto";              // auto, classification or regression
  std::vector<std::string> missing = {};  // see TableFacts
};

struct TableSurvey {
  TableFacts facts;
  std::vector<std::string> classes;  // numbers before words, each sorted; empty: the target is a number
  std::vector<std::string> notes;    // sentences about what was recognised, and what is left out
};
// Scans a file to train on.
TableSurvey survey_table(const std::string& path, const TableChoices& choices);

// Columns to read in addition to the inputs.
struct RowsWanted {
  bool targets = false;
  std::string target = "";             // names the column of the target if it differs from the facts'
  std::vector<std::string> keep = {};  // columns passed on unchanged, by name or by number from 1
};
struct TableRows {
  Tensor inputs;   // f64 [n, inputs]; missing numbers are NaN, missing and unknown words 0 everywhere
  Tensor targets;  // i64 [n] in the order of the classes, or f64 [n]; undefined unless requested
  std::vector<std::string> kept_names;
  std::vector<std::vector<std::string>> kept;  // by row
  std::vector<std::string> notes;              // about fields the facts did not expect
};
// Reads a file as the facts say. Columns are matched by name; those unknown to the facts are left out.
TableRows read_rows(const std::string& path, const TableFacts& facts, const std::vector<std::string>& classes,
                    const RowsWanted& wanted);

}  // namespace ebb::program
