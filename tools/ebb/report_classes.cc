// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "report.h"

namespace ebb::program {
namespace {

constexpr std::int64_t kLargestMatrix = 24;

struct Counts {
  std::int64_t classes;
  std::vector<std::int64_t> of;  // [actual, predicted]
  std::int64_t at(std::int64_t actual, std::int64_t predicted) const {
    return of[static_cast<std::size_t>(actual * classes + predicted)];
  }
  std::int64_t total(std::int64_t actual) const {
    std::int64_t n = 0;
    for (std::int64_t p = 0; p < classes; ++p) n += at(actual, p);
    return n;
  }
};

Counts count(const ReportFacts& f) {
  const std::int64_t classes = f.data->facts.class_count();
  return {classes, confusion(*f.evaluation, f.data->test, classes)};
}

const std::string& name(const ReportFacts& f, std::int64_t k) {
  return f.data->facts.classes[static_cast<std::size_t>(k)];
}

std::string figure(const ReportFacts& f, std::size_t i, std::int64_t actual) {
  const auto at = static_cast<std::int64_t>(i);
  const std::int64_t predicted = f.evaluation->predicted[i];
  const bool right = actual == predicted;
  return fmt::format(
      "<figure class=\"{}\"><img src=\"{}\" alt=\"{}\" loading=\"lazy\"><figcaption><b>{}</b> {:.0f} %{}"
      "</figcaption></figure>\n",
      right ? "right" : "wrong", picture_url(f.data->test.inputs[at]), escaped(name(f, actual)),
      escaped(name(f, predicted)), 100 * f.evaluation->sure[i],
      right ? "" : fmt::format("<br>is {}", escaped(name(f, actual))));
}

bool has_pictures(const ReportFacts& f) {
  const Shape& s = f.data->facts.example;
  return s.rank() == 3 && (s[0] == 1 || s[0] == 3);
}

}  // namespace

std::string confusion_matrix(const ReportFacts& f) {
  const Counts c = count(f);
  if (c.classes > kLargestMatrix) return {};
  std::int64_t most_wrong = 1;
  for (std::int64_t a = 0; a < c.classes; ++a) {
    for (std::int64_t p = 0; p < c.classes; ++p) {
      if (a != p) most_wrong = std::max(most_wrong, c.at(a, p));
    }
  }
  std::string s = fmt::format(
      "<table class=\"confusion\" style=\"min-width:{}px\"><thead><tr><td></td><td colspan=\"{}\" "
      "class=\"axis\">predicted"
      "</td></tr><tr><th></th>",
      25 * (c.classes + 1), c.classes);
  for (std::int64_t p = 0; p < c.classes; ++p) s += fmt::format("<th>{}</th>", escaped(name(f, p)));
  s += "</tr></thead><tbody>\n";
  for (std::int64_t a = 0; a < c.classes; ++a) {
    const std::int64_t total = c.total(a);
    s += fmt::format("<tr><th>{}</th>", escaped(name(f, a)));
    for (std::int64_t p = 0; p < c.classes; ++p) {
      const std::int64_t n = c.at(a, p);
      // The diagonal relative to its row, mistakes relative to the most common mistake.
      const double share =
          static_cast<double>(n) / static_cast<double>(a == p ? std::max<std::int64_t>(total, 1) : most_wrong);
      const double depth = a == p ? 0.2 + 0.5 * share : n > 0 ? 0.14 + 0.56 * share : 0;
      s += fmt::format(
          "<td class=\"{}\" style=\"--d:{:.2f}\" data-actual=\"{}\" data-predicted=\"{}\" data-count=\"{}\" "
          "title=\"{} of {}: {} predicted as {}\">{}</td>",
          a == p ? "right" : "wrong", depth, a, p, n, n, total, escaped(name(f, a)), escaped(name(f, p)),
          n > 0 ? std::to_string(n) : "");
    }
    s += "</tr>\n";
  }
  return s + "</tbody></table>\n";
}

std::string class_bars(const ReportFacts& f) {
  const Counts c = count(f);
  std::vector<std::int64_t> order;
  for (std::int64_t k = 0; k < c.classes; ++k) order.push_back(k);
  const auto share = [&](std::int64_t k) {
    return c.total(k) == 0 ? 0.0 : static_cast<double>(c.at(k, k)) / static_cast<double>(c.total(k));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return share(a) < share(b); });
  order.resize(std::min<std::size_t>(order.size(), 20));
  // From the hardest class to all correct: the differences are the point of the plot.
  const double from = std::min(0.95, std::max(0.0, share(order.front()) - 0.1));
  std::size_t longest = 2;
  for (std::int64_t k : order) longest = std::max(longest, name(f, k).size());
  std::string s = fmt::format("<div class=\"bars\" style=\"--names:{}ch\">", std::min<std::size_t>(longest, 16));
  for (std::int64_t k : order) {
    s += fmt::format(
        "<div><span>{}</span><i><b style=\"width:{:.1f}%\"></b></i><span class=\"number\">{:.1f} %</span></div>",
        escaped(name(f, k)), 100 * (share(k) - from) / (1 - from), 100 * share(k));
  }
  return s + fmt::format("</div><p class=\"note\">The bars begin at {:.0f} %.</p>\n", 100 * from);
}

std::string first_pictures(const ReportFacts& f, std::size_t count) {
  if (!has_pictures(f)) return {};
  const std::vector<std::int64_t> actual = f.data->test.targets.to_vector<std::int64_t>();
  std::string s;
  for (std::size_t i = 0; i < std::min(count, actual.size()); ++i) s += figure(f, i, actual[i]);
  return s;
}

std::string surest_mistakes(const ReportFacts& f, std::size_t count) {
  if (!has_pictures(f)) return {};
  const std::vector<std::int64_t> actual = f.data->test.targets.to_vector<std::int64_t>();
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != f.evaluation->predicted[i]) wrong.push_back(i);
  }
  const std::vector<double>& sure = f.evaluation->sure;
  std::stable_sort(wrong.begin(), wrong.end(), [&](std::size_t a, std::size_t b) { return sure[a] > sure[b]; });
  std::string s;
  for (std::size_t k = 0; k < std::min(count, wrong.size()); ++k) s += figure(f, wrong[k], actual[wrong[k]]);
  return s;
}

}  // namespace ebb::program
