// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace ebb::program {

// Words in aligned columns, two spaces apart, under a line of headings. Columns named in `right` hold numbers.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings, std::vector<std::size_t> right = {});
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> right_;
};

// Names and their texts, one per line, the texts aligned.
std::string text_list(const std::vector<std::pair<std::string, std::string>>& items, int indent);

}  // namespace ebb::program
