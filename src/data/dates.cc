// SPDX-License-Identifier: MIT
#include "data/dates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace ebb {
namespace {

// The unread rest of a field.
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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

// The letters at its beginning.
std::string_view word_of(const Rest& rest) {
  const auto is_letter = [](char c) { return lower(c) >= 'a' && lower(c) <= 'z'; };
  return {rest.text.begin(), std::find_if_not(rest.text.begin(), rest.text.end(), is_letter)};
}

// 1 to 12: in one or two digits, or by an English name or its first three letters.
std::optional<int> read_month(Rest& rest, bool& named) {
  constexpr std::array<std::string_view, 12> names{"january",   "february", "march",    "april",
                                                   "may",       "june",     "july",     "august",
                                                   "september", "october",  "november", "december"};
  const std::string_view word = word_of(rest);
  named = !word.empty();
  if (!named) return rest.digits(1, 2);
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (!same_word(word, names[k]) && !same_word(word, names[k].substr(0, 3))) continue;
    rest.text.remove_prefix(word.size());
    return static_cast<int>(k) + 1;
  }
  return {};
}

// Four digits, or two for 1969 to 2068.
std::optional<int> read_year(Rest& rest, bool may_be_short) {
  if (const std::optional<int> year = rest.digits(4, 4)) return year;
  const std::optional<int> year = may_be_short ? rest.digits(2, 2) : std::nullopt;
  return year ? std::optional(*year + (*year < 69 ? 2000 : 1900)) : std::nullopt;
}

// Three parts with the same separator. Points put days first, dashes and slashes allow any order; next to the name of a
// month there may be blanks, and a comma before the year: 31-May-2024, 31 May 2024, May 31, 2024. The last part may be
// a year of two digits where it cannot be a day: 31.5.24, 5/31/24, 31-May-24.
std::optional<Date> read_date(Rest& rest, DateOrder order) {
  Date date{};
  bool named = false;
  char mark = 0;
  const auto take_mark = [&](bool before_year) {
    if (mark == 0 && !rest.text.empty()) mark = rest.text.front();
    if (mark == ' ' && named && before_year) rest.take(',');
    const bool known = mark == '-' || mark == '/' || (mark == '.' && order == DateOrder::day_first) || mark == ' ';
    return known && rest.take(mark);
  };
  const auto take = [&](int& into, std::optional<int> value) {
    into = value.value_or(0);
    return value.has_value();
  };
  const auto last_is_year = [&] { return mark == '/' || mark == '.' || (mark == '-' && named); };
  bool all = false;
  switch (order) {
    case DateOrder::year_first:
      all = take(date.year, rest.digits(4, 4)) && take_mark(false) && take(date.month, read_month(rest, named)) &&
            take_mark(false) && take(date.day, rest.digits(1, 2));
      break;
    case DateOrder::day_first:
      all = take(date.day, rest.digits(1, 2)) && take_mark(false) && take(date.month, read_month(rest, named)) &&
            take_mark(true) && take(date.year, read_year(rest, last_is_year()));
      break;
    case DateOrder::month_first:
      all = take(date.month, read_month(rest, named)) && take_mark(false) && take(date.day, rest.digits(1, 2)) &&
            take_mark(true) && take(date.year, read_year(rest, last_is_year()));
      break;
    case DateOrder::none:
      break;
  }
  return all && (mark != ' ' || named) ? std::optional(date) : std::nullopt;
}

// Seconds after the minutes: nothing, :00, :00.25.
std::optional<double> read_seconds(Rest& rest) {
  if (!rest.take(':')) return 0;
  const auto whole = rest.digits(2, 2);
  if (!whole || *whole > 60) return {};  // 60: a leap second
  double seconds = *whole;
  if (!rest.take('.')) return seconds;
  double unit = 1;
  for (std::optional<int> digit; (digit = rest.digits(1, 1));) seconds += (unit /= 10) * *digit;
  return unit < 1 ? std::optional(seconds) : std::nullopt;
}

// Seconds since midnight: 7:30, 23:15:00, 23:15:00.25, 11:15 PM.
std::optional<double> read_time(Rest& rest) {
  auto hours = rest.digits(1, 2);
  if (!hours || *hours > 24 || !rest.take(':')) return {};
  const auto minutes = rest.digits(2, 2);
  if (!minutes || *minutes > 59) return {};
  const std::optional<double> seconds = read_seconds(rest);
  if (!seconds) return {};
  Rest after = rest;
  after.take(' ');
  const std::string_view half = word_of(after);
  if (same_word(half, "am") || same_word(half, "pm")) {
    if (*hours < 1 || *hours > 12) return {};
    hours = *hours % 12 + (lower(half.front()) == 'p' ? 12 : 0);
    after.text.remove_prefix(half.size());
    rest = after;
  }
  return 3600.0 * *hours + 60.0 * *minutes + *seconds;
}

// Seconds east of Greenwich: Z, UTC, GMT, +02, +02:00, +0200, optionally after a blank; 0 if there is none.
std::optional<double> read_zone(Rest& rest) {
  if (rest.text.empty()) return 0;
  rest.take(' ');
  const std::string_view name = word_of(rest);
  if (name == "Z" || name == "UTC" || name == "GMT") {
    rest.text.remove_prefix(name.size());
    return 0;
  }
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
  const bool comma = rest.take(',');  // 5/31/2024, 11:15 PM
  if (!rest.take(' ') && (comma || !rest.take('T'))) return {};
  const std::optional<double> time = read_time(rest);
  if (!time) return {};
  const std::optional<double> zone = read_zone(rest);
  if (!zone || !rest.text.empty()) return {};
  return days + (*time - *zone) / 86400;
}

}  // namespace ebb
