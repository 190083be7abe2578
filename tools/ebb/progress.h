// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace ebb::program {

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string duration(double seconds);  // "20 ms", "4.2 s", "1 min 20 s", "2 h 5 min"

// A line on a terminal, redrawn about ten times a second; no output elsewhere.
class Progress {
 public:
  enum class To { output, errors, nobody };
  explicit Progress(To to = To::output);
  struct State {
    std::int64_t step, total;
    double epoch, epochs;
    double loss;
    std::optional<double> accuracy;
    double samples_per_second, seconds_left;
  };
  void show(const State& state);
  // Prints a line that stays, above the moving one.
  void say(const std::string& line);
  bool terminal() const { return terminal_; }

 private:
  std::FILE* out_;  // null: prints nothing
  bool terminal_;
  int columns_;
  bool drawn_ = false;
  Clock clock_;
  double last_ = -1;
};

}  // namespace ebb::program
