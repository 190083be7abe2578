// SPDX-License-Identifier: MIT
#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/format_error.h"

namespace ebb::program {
namespace {

constexpr int kBarWidth = 24;

// Eighths of a character, so that the bar moves smoothly.
std::string bar(double part) {
  static const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int filled = std::clamp(static_cast<int>(part * kBarWidth * 8), 0, kBarWidth * 8);
  std::string s;
  for (int k = 0; k < filled / 8; ++k) s += "█";
  s += eighths[filled % 8];
  for (int k = (filled + 7) / 8; k < kBarWidth; ++k) s += "·";
  return s;
}

}  // namespace

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0.1) return fmt::format("{:.0f} ms", 1000 * seconds);
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(To to)
    : out_(to == To::output   ? stdout
           : to == To::errors ? stderr
                              : nullptr),
      terminal_(out_ && isatty(fileno(out_)) != 0),
      columns_(100) {
  winsize size{};
  if (terminal_ && ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns_ = size.ws_col;
}

void Progress::show(const State& s) {
  if (!terminal_ || clock_.seconds() - last_ < 0.1) return;
  last_ = clock_.seconds();
  const double part = static_cast<double>(s.step) / static_cast<double>(std::max<std::int64_t>(1, s.total));
  std::string line = fmt::format("  {} {:3.0f} %  loss {:.4f}", bar(part), 100 * part, s.loss);
  int width = 2 + kBarWidth + 6 + 13;
  const auto add = [&](const std::string& text) {
    if (width + static_cast<int>(text.size()) + 2 > columns_) return;
    width += static_cast<int>(text.size()) + 2;
    line += "  " + text;
  };
  if (s.accuracy) add(fmt::format("accuracy {:.2f} %", 100 * *s.accuracy));
  add(fmt::format("epoch {:.1f}/{:.4g}", s.epoch, s.epochs));
  add(duration(s.seconds_left) + " left");
  add(fmt::format("{:.0f}/s", s.samples_per_second));
  std::fprintf(out_, "\r\033[K%s", line.c_str());
  std::fflush(out_);
  drawn_ = true;
}

void Progress::say(const std::string& line) {
  if (!out_) return;
  std::fprintf(out_, "%s%s\n", drawn_ ? "\r\033[K" : "", line.c_str());
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace ebb::program
