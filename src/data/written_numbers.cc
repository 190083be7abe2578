// SPDX-License-Identifier: MIT
#include "data/written_numbers.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ebb {
namespace {

template <class Number>
std::optional<Number> parsed_as(std::string_view field, bool& in_range) {
  Number value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  in_range = error != std::errc::result_out_of_range;
  if (field.empty() || end != field.data() + field.size() || error == std::errc::invalid_argument) return {};
  return value;
}

constexpr std::array<std::string_view, 10> kUnits{"%", "$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF"};
constexpr std::array<std::string_view, 2> kMinus{"-", "−"};
// Blanks in and around numbers: the plain one, and those that do not break a line.
constexpr std::array<std::string_view, 3> kBlanks{" ", "\u00A0", "\u202F"};
constexpr std::array<std::string_view, 7> kThousands{" ", "\u00A0", "\u202F", "'", "’", ",", "."};

// Takes one of the words from the front of the text.
template <class Words>
std::string_view take_front(std::string_view& text, const Words& words) {
  for (const std::string_view word : words) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    return word;
  }
  return {};
}

template <class Words>
std::string_view take_back(std::string_view& text, const Words& words) {
  for (const std::string_view word : words) {
    if (!text.ends_with(word)) continue;
    text.remove_suffix(word.size());
    return word;
  }
  return {};
}

std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

// If both marks are there, the last one is the decimal mark.
char decimal_mark(std::string_view digits) {
  const std::size_t point = digits.rfind('.'), comma = digits.rfind(',');
  if (point == digits.npos || comma == digits.npos) return 0;
  return point > comma ? '.' : ',';
}

// 1,234,567.5 as 1234567.5: one to three digits, groups of three behind the same mark, the decimal mark and digits. A
// zero in front belongs to a fraction (0,125) or to no number at all.
std::optional<std::string> without_thousands(std::string_view text, char decimal, bool& apart) {
  std::string number(take_digits(text));
  std::string_view mark;
  while (!text.empty() && text.front() != decimal) {
    const std::string_view next = take_front(text, kThousands), group = take_digits(text);
    const bool first = mark.empty();
    if (next.empty() || group.size() != 3 || (first ? number.empty() || number.size() > 3 : next != mark)) return {};
    if (first && number.front() == '0') return {};
    mark = next;
    number += group;
  }
  apart = !mark.empty();
  if (text.empty()) return number.empty() ? std::nullopt : std::optional(number);
  text.remove_prefix(1);
  const std::string_view fraction = take_digits(text);
  if (!text.empty() || (number.empty() && fraction.empty())) return {};
  return number + "." + std::string(fraction);
}

}  // namespace

// Beyond the range of doubles a number is 0 or infinite; the larger range of long doubles tells which.
std::optional<double> plain_number(std::string_view field) {
  if (field.starts_with('+')) field.remove_prefix(1);
  bool in_range = true;
  const std::optional<double> value = parsed_as<double>(field, in_range);
  if (!value || in_range) return value;
  const std::optional<long double> wide = parsed_as<long double>(field, in_range);
  return in_range ? std::optional(static_cast<double>(*wide)) : std::nullopt;
}

std::optional<double> decimal_comma_number(std::string_view field) {
  if (std::count(field.begin(), field.end(), ',') != 1 || field.find('.') != field.npos) return {};
  std::string text(field);
  std::replace(text.begin(), text.end(), ',', '.');
  return plain_number(text);
}

std::optional<Amount> amount_of(std::string_view field, char decimal) {
  std::string_view text = field;
  const bool parentheses = text.size() > 2 && text.front() == '(' && text.back() == ')';
  if (parentheses) text = text.substr(1, text.size() - 2);
  bool negative = !take_front(text, kMinus).empty();
  std::string_view unit = take_front(text, kUnits);
  if (!unit.empty()) {
    while (!take_front(text, kBlanks).empty()) {
    }
    if (!negative) negative = !take_front(text, kMinus).empty();
  } else if (!(unit = take_back(text, kUnits)).empty()) {
    while (!take_back(text, kBlanks).empty()) {
    }
  }
  const char mark = decimal_mark(text);
  bool apart = false;
  const std::optional<std::string> digits = without_thousands(text, mark != 0 ? mark : decimal, apart);
  if (!digits || (negative && parentheses)) return {};
  const bool written = apart || parentheses || !unit.empty() || field.starts_with(kMinus[1]);
  if (!written) return {};
  const double value = plain_number(*digits).value_or(0);
  return Amount{negative || parentheses ? -value : value, std::string(unit), mark};
}

}  // namespace ebb
