// SPDX-License-Identifier: MIT
#include "text_table.h"

#include <algorithm>

namespace ebb::program {
namespace {

// Counts letters, not bytes: formulas have Greek ones.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings, std::vector<std::size_t> right) : right_(std::move(right)) {
  rows_.push_back(std::move(headings));
}

void TextTable::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string TextTable::str() const {
  std::vector<std::size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - width_of(row[c]), ' ');
      const bool is_right = std::find(right_.begin(), right_.end(), c) != right_.end();
      line += (c ? "  " : "") + (is_right ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string text_list(const std::vector<std::pair<std::string, std::string>>& items, int indent) {
  std::size_t widest = 0;
  for (const auto& [name, text] : items) widest = std::max(widest, width_of(name));
  std::string out;
  for (const auto& [name, text] : items) {
    const std::string gap(widest - width_of(name) + 2, ' ');
    out += std::string(static_cast<std::size_t>(indent), ' ') + name + (text.empty() ? "" : gap + text) + "\n";
  }
  return out;
}

}  // namespace ebb::program
