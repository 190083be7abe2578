// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sweep/sum_order.h"
#include "test_device.h"

// The order in which each device adds, implemented a second time from its definition: a line of n numbers, be it a row
// or flat; the total of a sweep with rows; and a column.
namespace ebb::testing {

// sweep/sum_order.h
struct CpuSums {
  template <class T>
  static double line(const T* x, std::int64_t n) {
    double all = 0, group = 0;
    for (std::int64_t b = 0; b < n; b += 1024) {
      T lanes[16] = {};
      for (std::int64_t i = b; i < std::min(n, b + 1024); ++i) lanes[(i - b) % 16] += x[i];
      double block = 0;
      for (T lane : lanes) block += static_cast<double>(lane);
      group += block;
      if ((b / 1024 + 1) % 64 == 0) all += group, group = 0;
    }
    return all + group;
  }
  template <class T>
  static double total_of_rows(const T* x, std::int64_t rows, std::int64_t columns) {
    double all = 0;
    const std::int64_t part = rows_per_part(rows, columns);
    for (std::int64_t r = 0; r < rows; r += part) {
      double sum = 0;
      for (std::int64_t k = r; k < std::min(rows, r + part); ++k) sum += line(x + k * columns, columns);
      all += sum;
    }
    return all;
  }
  template <class T>
  static double column(const T* x, std::int64_t rows, std::int64_t columns) {
    double all = 0;
    const std::int64_t part = rows_per_part(rows, columns);
    for (std::int64_t r = 0; r < rows; r += part) {
      double closed = 0;
      for (std::int64_t run = r; run < std::min(rows, r + part); run += 32) {
        T open = 0;
        for (std::int64_t k = run; k < std::min({rows, r + part, run + 32}); ++k) open += x[k * columns];
        closed += static_cast<double>(open);
      }
      all += closed;
    }
    return all;
  }
};

// cuda/print/prelude.cc: leaves of 8 pairwise, 8 of them 256 apart, both in the type of the elements; then in f64 the
// 32 lanes pairwise, which is a segment of 2048. 32 lanes take 1024 segments in turn, or the rows of a total, and are
// added like the lanes of a segment; and so are the sums of 1024.
struct CudaSums {
  template <class T>
  static double segment(const T* x, std::int64_t n) {
    const auto at = [&](std::int64_t i) { return i < n ? x[i] : T(0); };
    double lanes[32] = {};
    for (std::int64_t lane = 0; lane < 32; ++lane) {
      T part = 0;
      for (std::int64_t leaf = lane * 8; leaf < n; leaf += 256) {
        const T pairs[] = {at(leaf) + at(leaf + 1), at(leaf + 2) + at(leaf + 3), at(leaf + 4) + at(leaf + 5),
                           at(leaf + 6) + at(leaf + 7)};
        part += (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
      }
      lanes[lane] = static_cast<double>(part);
    }
    return over_lanes(lanes);
  }
  template <class T>
  static double line(const T* x, std::int64_t n) {
    std::vector<double> parts;
    for (std::int64_t b = 0; b < n; b += 2048) parts.push_back(segment(x + b, std::min<std::int64_t>(2048, n - b)));
    return over_parts(parts);
  }
  template <class T>
  static double total_of_rows(const T* x, std::int64_t rows, std::int64_t columns) {
    std::vector<double> parts;
    for (std::int64_t r = 0; r < rows; ++r) parts.push_back(line(x + r * columns, columns));
    return over_parts(parts);
  }
  // 8 rows in the type of the elements; then groups of such in f64, in 64 chains.
  template <class T>
  static double column(const T* x, std::int64_t rows, std::int64_t columns) {
    const auto pieces = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
    const std::int64_t most = std::clamp<std::int64_t>((1 << 20) / columns, 64, 4096);
    const std::int64_t group = pieces(pieces(rows, 8), most) * 8;
    double chains[64] = {};
    for (std::int64_t r = 0; r < rows; r += group) {
      double sum = 0;
      for (std::int64_t chunk = r; chunk < std::min(rows, r + group); chunk += 8) {
        T open = 0;
        for (std::int64_t k = chunk; k < std::min({rows, r + group, chunk + 8}); ++k) open += x[k * columns];
        sum += static_cast<double>(open);
      }
      chains[r / group % 64] += sum;
    }
    double all = chains[0];
    for (int c = 1; c < 64; ++c) all += chains[c];
    return all;
  }

 private:
  static double over_lanes(const double* lanes) {
    std::vector<double> x(lanes, lanes + 32);
    for (std::size_t half = 16; half; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) x[i] += x[i + half];
    }
    return x[0];
  }
  static double by_lanes(const double* x, std::size_t n) {
    double lanes[32] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i % 32] += x[i];
    return over_lanes(lanes);
  }
  static double over_parts(const std::vector<double>& parts) {
    std::vector<double> groups;
    for (std::size_t g = 0; g < parts.size(); g += 1024)
      groups.push_back(by_lanes(parts.data() + g, std::min<std::size_t>(1024, parts.size() - g)));
    return by_lanes(groups.data(), groups.size());
  }
};

}  // namespace ebb::testing
