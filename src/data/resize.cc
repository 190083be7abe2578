// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "data/picture.h"

namespace ebb {
namespace {

// The source of a pixel of the new row: pixels from `first` on, and their weights.
struct Source {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Source> sources(std::int64_t from, std::int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, ratio);
  std::vector<Source> all(static_cast<std::size_t>(to));
  for (std::int64_t k = 0; k < to; ++k) {
    const double middle = (static_cast<double>(k) + 0.5) * ratio;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(middle - reach)));
    const auto end = std::min(from, static_cast<std::int64_t>(std::ceil(middle + reach)));
    Source& s = all[static_cast<std::size_t>(k)];
    s.first = first;
    double total = 0;
    std::vector<double> weights;
    for (std::int64_t i = first; i < end; ++i) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - middle) / reach));
      total += weights.back();
    }
    for (double w : weights) s.weights.push_back(static_cast<float>(w / total));
  }
  return all;
}

}  // namespace

Picture resized(const Picture& p, std::int64_t height, std::int64_t width) {
  if (p.height == height && p.width == width) return p;
  const auto c = static_cast<std::int64_t>(p.channels);
  const std::vector<Source> columns = sources(p.width, width), rows = sources(p.height, height);
  // First every row to its new width, then every column to its new height.
  std::vector<float> wide(static_cast<std::size_t>(p.height * width * c));
  for (std::int64_t y = 0; y < p.height; ++y) {
    const std::uint8_t* from = p.pixels.data() + y * p.width * c;
    float* to = wide.data() + y * width * c;
    for (std::int64_t x = 0; x < width; ++x) {
      const Source& s = columns[static_cast<std::size_t>(x)];
      for (std::size_t k = 0; k < s.weights.size(); ++k) {
        const std::uint8_t* pixel = from + (s.first + static_cast<std::int64_t>(k)) * c;
        for (std::int64_t i = 0; i < c; ++i) to[x * c + i] += s.weights[k] * static_cast<float>(pixel[i]);
      }
    }
  }
  Picture out{height, width, p.channels, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * c))};
  std::vector<float> line(static_cast<std::size_t>(width * c));
  for (std::int64_t y = 0; y < height; ++y) {
    const Source& s = rows[static_cast<std::size_t>(y)];
    std::fill(line.begin(), line.end(), 0.0f);
    for (std::size_t k = 0; k < s.weights.size(); ++k) {
      const float* from = wide.data() + (s.first + static_cast<std::int64_t>(k)) * width * c;
      for (std::size_t i = 0; i < line.size(); ++i) line[i] += s.weights[k] * from[i];
    }
    std::uint8_t* to = out.pixels.data() + y * width * c;
    for (std::size_t i = 0; i < line.size(); ++i) {
      to[i] = static_cast<std::uint8_t>(std::clamp(line[i] + 0.5f, 0.0f, 255.0f));
    }
  }
  return out;
}

}  // namespace ebb
