// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

// Line plots as SVG text that follows the reader's light or dark theme, inside a page as well as from an <img>.
namespace plot {

inline std::string text(const char* format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  std::string out(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, args)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  va_end(args);
  return out;
}

struct Line {
  std::string name;
  std::vector<double> x, y;
  const char* style = "a";  // a, b, c: the three colours; "faint": behind the others
  bool dots = false;
  bool joined = true;  // by a line
};

// More markers than this hide the line below them.
inline constexpr std::size_t kMostDots = 60;

struct Axes {
  std::string title = "", x_label = "", y_label = "";
  double y_from = NAN, y_to = NAN;  // NaN: from the data
  bool percent = false;
  bool log_y = false;
  int width = 620, height = 300;
};

// Steps of 1, 2 or 5 times a power of ten, about `count` of them.
inline double nice_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

inline std::string lines(const Axes& axes, const std::vector<Line>& all) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (const Line& l : all) {
    for (double v : l.x) x0 = std::min(x0, v), x1 = std::max(x1, v);
    for (double v : l.y) y0 = std::min(y0, v), y1 = std::max(y1, v);
  }
  if (!std::isnan(axes.y_from)) y0 = axes.y_from;
  if (!std::isnan(axes.y_to)) y1 = axes.y_to;
  if (!(x1 > x0)) x1 = x0 + 1;
  if (!(y1 > y0)) y1 = y0 + 1;

  const double left = 56, right = 16, top = 40, bottom = 42;
  const double w = axes.width - left - right, h = axes.height - top - bottom;
  auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * w; };
  auto scale = [&](double y) { return axes.log_y ? std::log10(y) : y; };
  auto py = [&](double y) {
    return top + h - (scale(std::clamp(y, y0, y1)) - scale(y0)) / (scale(y1) - scale(y0)) * h;
  };

  std::string s = text(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" "
      "aria-label=\"%s\">\n",
      axes.width, axes.height, axes.width, axes.title.c_str());
  s +=
      "<style>\n"
      "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#57606a}\n"
      ".title{font-size:14px;font-weight:600;fill:#1f2328}\n"
      ".grid{stroke:#8c959f;stroke-opacity:.25}.zero{stroke:#8c959f;stroke-opacity:.8}\n"
      ".line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
      ".a{stroke:#0969da}.b{stroke:#d1571b}.c{stroke:#1a7f37}.faint{stroke:#0969da;stroke-width:1;stroke-opacity:.35}\n"
      ".dot.a{fill:#0969da}.dot.b{fill:#d1571b}.dot.c{fill:#1a7f37}\n"
      "@media (prefers-color-scheme:dark){text{fill:#9198a1}.title{fill:#f0f6fc}\n"
      ".a,.faint{stroke:#58a6ff}.b{stroke:#ff9552}.c{stroke:#3fb950}\n"
      ".dot.a{fill:#58a6ff}.dot.b{fill:#ff9552}.dot.c{fill:#3fb950}}\n"
      "</style>\n";
  s += text("<text class=\"title\" x=\"%g\" y=\"20\">%s</text>\n", left, axes.title.c_str());

  const double step_y = nice_step(y1 - y0, 5), step_x = nice_step(x1 - x0, 8);
  std::vector<double> ticks;
  if (axes.log_y) {
    // Powers of ten, and if there are few of them also 2 and 5 times each.
    const bool few = std::log10(y1 / y0) < 2.5;
    for (double power = std::pow(10, std::floor(std::log10(y0))); power <= y1; power *= 10) {
      for (double lead : {1.0, 2.0, 5.0}) {
        const double y = lead * power;
        if (y >= y0 * 0.999 && y <= y1 * 1.001 && (lead == 1 || few)) ticks.push_back(y);
      }
    }
  } else {
    for (double k = std::ceil(y0 / step_y - 1e-9); k * step_y <= y1 + 1e-9 * step_y; ++k)
      ticks.push_back(k * step_y + 0.0);
  }
  for (double y : ticks) {
    s += text("<path class=\"%s\" d=\"M%.1f %.1fH%.1f\"/>", y == 0 ? "zero" : "grid", left, py(y), left + w);
    const std::string label = axes.percent ? text("%g %%", 100 * y) : text("%g", y);
    s += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 8, py(y) + 4, label.c_str());
  }
  for (double k = std::ceil(x0 / step_x - 1e-9); k * step_x <= x1 + 1e-9 * step_x; ++k) {
    const double x = k * step_x + 0.0;  // no minus zero
    s += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", px(x), top + h + 18, x);
  }
  s += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", left + w / 2, top + h + 36,
            axes.x_label.c_str());
  if (!axes.y_label.empty()) s += text("<text x=\"8\" y=\"%.1f\">%s</text>\n", top - 6.0, axes.y_label.c_str());

  double legend = left + w;
  for (auto l = all.rbegin(); l != all.rend(); ++l) {
    std::string path;
    for (std::size_t i = 0; i < l->x.size(); ++i) {
      path += text("%s%.1f %.1f", i ? "L" : "M", px(l->x[i]), py(l->y[i]));
    }
    if (l->joined) s += text("<path class=\"line %s\" d=\"%s\"/>\n", l->style, path.c_str());
    const bool dots = l->dots && (!l->joined || l->x.size() <= kMostDots);
    for (std::size_t i = 0; dots && i < l->x.size(); ++i) {
      s += text("<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", l->style, px(l->x[i]), py(l->y[i]));
    }
    if (l->name.empty()) continue;
    s += text("\n<text x=\"%.1f\" y=\"20\" text-anchor=\"end\">%s</text>", legend, l->name.c_str());
    legend -= 6.4 * static_cast<double>(l->name.size()) + 8;
    s += text("<path class=\"line %s\" d=\"M%.1f 16h16\"/>\n", l->style, legend - 16);
    legend -= 32;
  }
  return s + "</svg>\n";
}

}  // namespace plot
