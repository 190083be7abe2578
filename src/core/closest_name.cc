// SPDX-License-Identifier: MIT
#include "core/closest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ebb {
namespace {

bool same_letter(char a, char b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return lower(a) == lower(b);
}

// The number of letters to change, add, remove or swap with a neighbour to turn one word into the other
// (Damerau-Levenshtein distance, in the restricted form that edits no part twice). Case does not count.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j - 1] + !same_letter(a[i - 1], b[j - 1]), row[j - 1] + 1, above[j] + 1});
      const bool exchanged = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

bool contains(std::string_view outer, std::string_view inner) {
  return inner.size() >= 3 && !std::ranges::search(outer, inner, same_letter).empty();
}

}  // namespace

std::string_view closest_name(std::string_view wrong, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t fewest = 0;
  for (std::string_view name : names) {
    // A third of the letters may be wrong; a name may also be cut short ("mse") or spelt out ("variance"). Names of
    // very different lengths are not compared: the input may be a whole file.
    const std::size_t most = std::max<std::size_t>(1, wrong.size() / 3);
    const std::size_t longer = std::max(wrong.size(), name.size()) - std::min(wrong.size(), name.size());
    const bool part = contains(name, wrong) || contains(wrong, name);
    const std::size_t count = part || longer > most ? longer : edits(wrong, name);
    const bool near = part || (count <= most && count < std::max(wrong.size(), name.size()));  // a letter is in common
    if (near && (best.empty() || count < fewest)) best = name, fewest = count;
  }
  return best;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names) {
  const std::string_view best = closest_name(wrong, names);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace ebb
