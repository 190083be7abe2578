// SPDX-License-Identifier: MIT
#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ebb/losses/registry.h"
#include "ebb/ops/create.h"
#include "source_folder.h"

// Reads golden/losses.txt, which make_golden.py wrote.
namespace ebb::testing {

struct GoldenCase {
  std::string name, loss;
  LossOptionValues options;
  std::vector<Tensor> inputs;
  Tensor cotangent, value;
  std::map<std::size_t, Tensor> gradients;  // by the number of the input
};

inline std::ostream& operator<<(std::ostream& os, const GoldenCase& c) { return os << c.name; }

inline Tensor read_tensor(std::istringstream& in) {
  std::string dtype, colon;
  int rank = 0;
  in >> dtype >> rank;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank));
  for (auto& n : sizes) in >> n;
  in >> colon;
  std::vector<double> values;
  for (std::string word; in >> word;) values.push_back(std::stod(word));
  const Shape shape(sizes);
  if (colon != ":" || static_cast<std::int64_t>(values.size()) != shape.numel()) {
    throw std::runtime_error("golden/losses.txt: a tensor does not have as many numbers as its shape");
  }
  if (dtype == "f64") return from_data(values, shape);
  return from_data(std::vector<std::int64_t>(values.begin(), values.end()), shape);
}

inline std::vector<GoldenCase> golden_cases() {
  std::ifstream file(source_folder() / "tests/losses/golden/losses.txt");
  std::vector<GoldenCase> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream in(text);
    std::string word, key;
    in >> word;
    if (word == "case") {
      in >> cases.emplace_back().name;
    } else if (word == "loss") {
      in >> cases.back().loss;
    } else if (word == "reduction") {
      in >> key;
      cases.back().options["reduction"] = key;
    } else if (word == "option") {
      double value = 0;
      in >> key >> value;
      cases.back().options[key] = value;
    } else if (word == "input") {
      in >> key;
      cases.back().inputs.push_back(read_tensor(in));
    } else if (word == "cotangent" || word == "value") {
      in >> key;
      (word == "value" ? cases.back().value : cases.back().cotangent) = read_tensor(in);
    } else if (word == "gradient") {
      std::size_t which = 0;
      in >> which;
      cases.back().gradients[which] = read_tensor(in);
    }
  }
  return cases;
}

}  // namespace ebb::testing
