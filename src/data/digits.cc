// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/format_error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ebb/data/digits.h"
#include "ebb/ops/create.h"

namespace ebb {
namespace {

constexpr int kSide = 28, kDigitPixels = kSide * kSide;

struct Point {
  double x, y;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double s, Point a) { return {s * a.x, s * a.y}; }

// ---- how each digit is written --------------------------------------------------------------------------------------

// One stroke of the pen, in a unit square with y downwards: through the points in a smooth curve, or straight from each
// to the next.
struct Stroke {
  enum { curve, straight } form;
  std::vector<Point> points;
};
using Glyph = std::vector<Stroke>;

// Several people's ways of writing each digit.
const std::array<std::vector<Glyph>, 10>& glyphs() {
  constexpr auto curve = Stroke::curve, straight = Stroke::straight;
  static const std::array<std::vector<Glyph>, 10> all{{
      {
          {{curve,
            {{.50, .08},
             {.26, .24},
             {.20, .54},
             {.33, .86},
             {.56, .92},
             {.77, .72},
             {.80, .40},
             {.66, .12},
             {.50, .08}}}},
          {{curve,
            {{.62, .12},
             {.40, .10},
             {.22, .36},
             {.24, .72},
             {.46, .92},
             {.72, .80},
             {.78, .46},
             {.64, .16},
             {.46, .14}}}},
      },
      {
          {{straight, {{.52, .08}, {.50, .92}}}},
          {{straight, {{.34, .26}, {.54, .08}, {.52, .92}}}},
          {{straight, {{.34, .26}, {.54, .08}, {.53, .92}}}, {straight, {{.32, .92}, {.74, .92}}}},
      },
      {
          {{curve, {{.24, .28}, {.34, .12}, {.54, .08}, {.74, .20}, {.72, .40}, {.52, .62}, {.22, .90}}},
           {straight, {{.22, .90}, {.80, .90}}}},
          {{curve,
            {{.24, .26},
             {.40, .10},
             {.62, .10},
             {.74, .28},
             {.62, .52},
             {.38, .80},
             {.24, .88},
             {.22, .76},
             {.36, .74},
             {.56, .88},
             {.80, .84}}}},
      },
      {
          {{curve, {{.24, .18}, {.46, .08}, {.70, .18}, {.68, .38}, {.44, .47}}},
           {curve, {{.44, .47}, {.72, .56}, {.76, .76}, {.54, .92}, {.22, .82}}}},
          {{straight, {{.26, .10}, {.72, .10}, {.46, .42}}},
           {curve, {{.46, .42}, {.72, .52}, {.76, .74}, {.54, .92}, {.24, .84}}}},
      },
      {
          {{straight, {{.36, .10}, {.22, .58}, {.80, .58}}}, {straight, {{.66, .30}, {.62, .92}}}},
          {{straight, {{.62, .92}, {.62, .08}, {.20, .62}, {.82, .62}}}},
          {{curve, {{.30, .10}, {.26, .40}, {.44, .52}, {.72, .48}}}, {straight, {{.74, .10}, {.70, .92}}}},
      },
      {
          {{straight, {{.74, .10}, {.32, .10}, {.28, .46}}},
           {curve, {{.28, .46}, {.52, .40}, {.76, .56}, {.72, .82}, {.48, .92}, {.22, .84}}}},
          {{curve,
            {{.78, .08},
             {.50, .12},
             {.32, .14},
             {.30, .36},
             {.52, .44},
             {.72, .60},
             {.66, .84},
             {.42, .92},
             {.22, .82}}}},
      },
      {
          {{curve,
            {{.70, .10},
             {.44, .22},
             {.26, .50},
             {.26, .76},
             {.44, .92},
             {.68, .84},
             {.74, .66},
             {.56, .52},
             {.36, .58},
             {.27, .74}}}},
          {{curve, {{.56, .08}, {.34, .38}, {.24, .70}, {.40, .92}, {.66, .88}, {.72, .68}, {.54, .56}, {.28, .70}}}},
      },
      {
          {{straight, {{.22, .12}, {.78, .12}, {.44, .92}}}},
          {{straight, {{.22, .12}, {.78, .12}}}, {curve, {{.78, .12}, {.58, .44}, {.48, .92}}}},
          {{straight, {{.22, .12}, {.78, .12}, {.44, .92}}}, {straight, {{.38, .50}, {.74, .50}}}},
      },
      {
          {{curve,
            {{.70, .20},
             {.50, .08},
             {.30, .20},
             {.36, .40},
             {.64, .56},
             {.76, .76},
             {.50, .92},
             {.24, .76},
             {.38, .56},
             {.66, .38},
             {.70, .20}}}},
          {{curve, {{.50, .08}, {.30, .26}, {.50, .46}, {.70, .26}, {.50, .08}}},
           {curve, {{.50, .46}, {.24, .70}, {.50, .92}, {.76, .70}, {.50, .46}}}},
      },
      {
          {{curve, {{.74, .28}, {.58, .08}, {.32, .14}, {.26, .36}, {.42, .50}, {.64, .44}, {.74, .26}}},
           {curve, {{.74, .26}, {.74, .55}, {.66, .92}}}},
          {{curve, {{.74, .28}, {.56, .08}, {.30, .18}, {.28, .40}, {.48, .50}, {.70, .38}, {.74, .24}}},
           {curve, {{.74, .24}, {.75, .58}, {.60, .88}, {.32, .86}}}},
      },
  }};
  return all;
}

// ---- chance ---------------------------------------------------------------------------------------------------------

// The numbers of one image: Philox with the image's index as the operation.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t image) : seed_(seed), image_(image) {}

  double uniform(double lo, double hi) { return lo + (hi - lo) * (word() + 0.5) * 0x1p-32; }
  int below(int n) { return static_cast<int>((std::uint64_t{word()} * static_cast<std::uint64_t>(n)) >> 32); }
  double normal(double deviation) {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(uniform(0, 1)));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }
  // Nearly normal and fast, for every pixel: the sum of a word's four bytes.
  double noise(double deviation) {
    const std::uint32_t w = word();
    const double sum = (w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24);
    return deviation * (sum - 510) / 147.8;  // sqrt(4·(256² − 1)/12)
  }

 private:
  std::uint32_t word() {
    if (used_ == 4) {
      philox_block(seed_, image_, block_++, words_);
      used_ = 0;
    }
    return words_[used_++];
  }

  std::uint64_t seed_, image_, block_ = 0;
  std::uint32_t words_[4] = {};
  int used_ = 4;
};

// ---- the pen --------------------------------------------------------------------------------------------------------

// A stroke as short straight pieces; curves are Catmull-Rom splines, which pass through their points. A curve that ends
// where it began has no corner there.
std::vector<Point> flatten(const Stroke& stroke) {
  constexpr int kPieces = 6;
  const std::vector<Point>& p = stroke.points;
  const std::size_t n = p.size();
  const bool closed = p[0].x == p[n - 1].x && p[0].y == p[n - 1].y;
  std::vector<Point> line{p[0]};
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const Point b = p[i], c = p[i + 1];
    const Point a = i > 0 ? p[i - 1] : closed ? p[n - 2] : b, d = i + 2 < n ? p[i + 2] : closed ? p[1] : c;
    for (int k = 1; k <= kPieces; ++k) {
      const double t = k / double{kPieces};
      const Point linear = b + t * (c - b);
      const Point spline = b + 0.5 * t * ((c - a) + t * ((2 * a - 5 * b + 4 * c - d) + t * (3 * (b - c) + d - a)));
      line.push_back(stroke.form == Stroke::straight ? linear : spline);
    }
  }
  return line;
}

// The handwriting of one digit, applied to every stroke, in pixels of the image.
struct Hand {
  double width, height, slant, turn, shift_x, shift_y;
  double thickness, pressure, pressure_phase;
  struct Wave {
    double size, along_x, along_y, phase;
  };
  std::array<Wave, 2> wave_x, wave_y;  // a slow wobble of the whole plane: strokes that met still meet

  explicit Hand(Dice& dice)
      : width(20 * dice.uniform(0.72, 1.08)),
        height(20 * dice.uniform(0.82, 1.10)),
        slant(dice.normal(0.16)),
        turn(dice.normal(0.10)),
        shift_x(dice.normal(1.0)),
        shift_y(dice.normal(1.0)),
        thickness(dice.uniform(1.5, 3.4)),
        pressure(dice.uniform(0, 0.25)),
        pressure_phase(dice.uniform(0, 7)) {
    for (auto* waves : {&wave_x, &wave_y}) {
      for (Wave& w : *waves) w = {dice.normal(0.035), dice.normal(4), dice.normal(4), dice.uniform(0, 7)};
    }
  }

  Point place(Point p) const {
    Point q = p;
    for (const Wave& w : wave_x) q.x += w.size * std::sin(w.along_x * p.x + w.along_y * p.y + w.phase);
    for (const Wave& w : wave_y) q.y += w.size * std::sin(w.along_x * p.x + w.along_y * p.y + w.phase);
    const double x = (q.x - 0.5) * width - slant * (q.y - 0.5) * height, y = (q.y - 0.5) * height;
    const double c = std::cos(turn), s = std::sin(turn);
    return {0.5 * kSide + shift_x + c * x - s * y, 0.5 * kSide + shift_y + s * x + c * y};
  }
};

double distance(Point p, Point a, Point b) {
  const Point u = b - a, v = p - a;
  const double length2 = u.x * u.x + u.y * u.y;
  const double t = length2 > 0 ? std::clamp((u.x * v.x + u.y * v.y) / length2, 0.0, 1.0) : 0.0;
  return std::hypot(v.x - t * u.x, v.y - t * u.y);
}

// Ink along a straight piece: 1 inside the pen's radius, falling to 0 over the pixel at its edge.
void draw(Point a, Point b, double radius, float* image) {
  const double reach = radius + 0.5;
  const int x0 = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - reach)));
  const int x1 = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(a.x, b.x) + reach)));
  const int y0 = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - reach)));
  const int y1 = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(a.y, b.y) + reach)));
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const double ink = std::clamp(reach - distance({x + 0.5, y + 0.5}, a, b), 0.0, 1.0);
      float& pixel = image[y * kSide + x];
      pixel = std::max(pixel, static_cast<float>(ink));
    }
  }
}

std::int64_t write_digit(std::uint64_t seed, std::uint64_t index, float* image) {
  Dice dice(seed, index);
  const int label = dice.below(10);
  const auto& ways = glyphs()[static_cast<std::size_t>(label)];
  const Glyph& glyph = ways[static_cast<std::size_t>(dice.below(static_cast<int>(ways.size())))];
  const Hand hand(dice);
  std::fill_n(image, kDigitPixels, 0.0f);
  double travelled = hand.pressure_phase;
  for (const Stroke& stroke : glyph) {
    std::vector<Point> line = flatten(stroke);
    for (Point& p : line) p = hand.place(p);
    for (std::size_t i = 0; i + 1 < line.size(); ++i, travelled += 0.2) {
      draw(line[i], line[i + 1], 0.5 * hand.thickness * (1 + hand.pressure * std::sin(travelled)), image);
    }
  }
  const double ink = dice.uniform(0.75, 1), noise = dice.uniform(0, 0.08);
  for (int k = 0; k < kDigitPixels; ++k) {
    image[k] = static_cast<float>(std::clamp(ink * image[k] + dice.noise(noise), 0.0, 1.0));
  }
  return label;
}

}  // namespace

Digits make_digits(std::int64_t n, std::uint64_t seed) {
  require(n >= 0, "make_digits: the number of images must not be negative, got {}", n);
  std::vector<float> images(static_cast<std::size_t>(n) * kDigitPixels);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(n));
  constexpr std::int64_t kTogether = 64;  // images per task
  parallel_for((n + kTogether - 1) / kTogether, [&](std::int64_t task) {
    for (std::int64_t i = task * kTogether; i < std::min(n, (task + 1) * kTogether); ++i) {
      const auto at = static_cast<std::size_t>(i);
      labels[at] = write_digit(seed, static_cast<std::uint64_t>(i), images.data() + at * kDigitPixels);
    }
  });
  return {from_data(images, {n, kDigitPixels}), from_data(labels, {n})};
}

}  // namespace ebb
