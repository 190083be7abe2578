#include "core/closest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ebb {
namespace {

// How many letters must be changed, added or left out to make one word of the other (Levenshtein).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

bool contains(std::string_view outer, std::string_view inner) {
  return inner.size() >= 3 && outer.find(inner) != std::string_view::npos;
}

}  // namespace

std::string_view closest_name(std::string_view wrong, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t fewest = 0;
  for (std::string_view name : names) {
    const std::size_t count = edits(wrong, name);
    // A third of the letters may be wrong; a name may also be cut short ("mse") or spelt out ("variance").
    const bool near =
        count <= std::max<std::size_t>(1, wrong.size() / 3) || contains(name, wrong) || contains(wrong, name);
    if (near && (best.empty() || count < fewest)) best = name, fewest = count;
  }
  return best;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names) {
  const std::string_view best = closest_name(wrong, names);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace ebb
