// SPDX-License-Identifier: MIT
#include "data/dates.h"

#include <charconv>
#include <chrono>

namespace ebb {
namespace {

// The rest of a field, read from its front.
struct Rest {
  std::string_view text;
  bool take(char c) {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
  }
  // A number of `least` to `most` digits.
  std::optional<int> digits(std::size_t least, std::size_t most) {
    std::size_t n = 0;
    while (n < text.size() && n < most && text[n] >= '0' && text[n] <= '9') ++n;
    if (n < least) return {};
    int value = 0;
    std::from_chars(text.data(), text.data() + n, value);
    text.remove_prefix(n);
    return value;
  }
};

struct Date {
  int year, month, day;
};

// Three numbers with the same mark between them. Points are for days first, dashes and slashes for all.
std::optional<Date> read_date(Rest& rest, DateOrder order) {
  const bool year_first = order == DateOrder::year_first;
  const auto first = year_first ? rest.digits(4, 4) : rest.digits(1, 2);
  if (!first || rest.text.empty()) return {};
  const char mark = rest.text.front();
  if (mark != '-' && mark != '/' && (mark != '.' || order != DateOrder::day_first)) return {};
  rest.take(mark);
  const auto second = rest.digits(1, 2);
  if (!second || !rest.take(mark)) return {};
  const auto third = year_first ? rest.digits(1, 2) : rest.digits(4, 4);
  if (!third) return {};
  if (year_first) return Date{*first, *second, *third};
  return order == DateOrder::day_first ? Date{*third, *second, *first} : Date{*third, *first, *second};
}

// Seconds since midnight: 7:30, 23:15:00, 23:15:00.25.
std::optional<double> read_time(Rest& rest) {
  const auto hours = rest.digits(1, 2);
  if (!hours || *hours > 24 || !rest.take(':')) return {};
  const auto minutes = rest.digits(2, 2);
  if (!minutes || *minutes > 59) return {};
  double seconds = 3600.0 * *hours + 60.0 * *minutes;
  if (!rest.take(':')) return seconds;
  const auto whole = rest.digits(2, 2);
  if (!whole || *whole > 60) return {};  // 60: a leap second
  seconds += *whole;
  if (!rest.take('.')) return seconds;
  double unit = 1;
  for (std::optional<int> digit; (digit = rest.digits(1, 1));) seconds += (unit /= 10) * *digit;
  return unit < 1 ? std::optional(seconds) : std::nullopt;
}

// Seconds east of Greenwich: Z, +02, +02:00, +0200; 0 where there is none.
std::optional<double> read_zone(Rest& rest) {
  if (rest.text.empty() || rest.take('Z')) return 0;
  const bool east = rest.take('+');
  if (!east && !rest.take('-')) return {};
  const auto hours = rest.digits(2, 2);
  if (!hours) return {};
  rest.take(':');
  const double minutes = rest.text.empty() ? 0 : rest.digits(2, 2).value_or(1000);
  if (*hours > 14 || minutes > 59) return {};
  return (east ? 1 : -1) * (3600.0 * *hours + 60.0 * minutes);
}

}  // namespace

std::optional<double> days_of(std::string_view field, DateOrder order) {
  if (order == DateOrder::none) return {};
  Rest rest{field};
  const std::optional<Date> date = read_date(rest, order);
  if (!date) return {};
  const std::chrono::year_month_day calendar{std::chrono::year(date->year),
                                             std::chrono::month(static_cast<unsigned>(date->month)),
                                             std::chrono::day(static_cast<unsigned>(date->day))};
  if (!calendar.ok()) return {};
  const auto days = static_cast<double>(std::chrono::sys_days(calendar).time_since_epoch().count());
  if (rest.text.empty()) return days;
  if (!rest.take('T') && !rest.take(' ')) return {};
  const std::optional<double> time = read_time(rest);
  if (!time) return {};
  const std::optional<double> zone = read_zone(rest);
  if (!zone || !rest.text.empty()) return {};
  return days + (*time - *zone) / 86400;
}

}  // namespace ebb
