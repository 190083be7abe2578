// SPDX-License-Identifier: MIT
#include "core/options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace ebb {
namespace {

std::string digits(double value, std::chars_format format) {
  char text[400];
  return {text, std::to_chars(text, text + sizeof text, value, format).ptr};
}

std::optional<double> number_from(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on") return 1;
  if (text == "false" || text == "no" || text == "off") return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

void fail_for_name(std::string_view owner, const char* what, std::string_view name,
                   const std::vector<std::string_view>& there) {
  fail(Error::Kind::value, "{}: it has no {} '{}'; it has {}", owner, what, name,
       there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

std::string text_of_default(double value) {
  const std::string plain = digits(value, std::chars_format::fixed);
  std::string powers = digits(value, std::chars_format::scientific);
  // "1e-03": to_chars writes at least two digits of the exponent.
  if (const std::size_t e = powers.find('e'); e != std::string::npos && powers[e + 2] == '0') powers.erase(e + 2, 1);
  return powers.size() < plain.size() ? powers : plain;
}

OptionValue option_from_text(std::string_view owner, const OptionInfo& option, std::string_view text) {
  if (option.kind == OptionInfo::Kind::word) return std::string(text);
  const std::optional<double> number = number_from(text);
  require(number.has_value(), "{}: the option {} is a number, got '{}'", owner, option.name, text);
  return *number;
}

void OptionLister::add(const char* name, std::string value, const char* meaning, OptionInfo::Kind kind) {
  ++members;
  options.push_back({name, std::move(value), meaning, kind});
}

bool OptionReader::number(const char* name, double& value) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return false;
  const double* given = std::get_if<double>(&it->second);
  if (!given) {
    fail(Error::Kind::value, "{}: the option {} is a number, got '{}'", owner_, name,
         std::get<std::string>(it->second));
  }
  value = *given;
  return true;
}

bool OptionReader::word(const char* name, std::string& value) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return false;
  const std::string* given = std::get_if<std::string>(&it->second);
  if (!given) {
    fail(Error::Kind::value, "{}: the option {} is a string, got {}", owner_, name, std::get<double>(it->second));
  }
  value = *given;
  return true;
}

void OptionReader::operator()(const char* name, std::int64_t& value, const char*) const {
  double given = 0;
  if (!number(name, given)) return;
  require(std::trunc(given) == given && std::abs(given) < 0x1p31,
          "{}: the option {} is a whole number below 2³¹, got {}", owner_, name, given);
  value = static_cast<std::int64_t>(given);
}

void OptionReader::operator()(const char* name, int& value, const char* meaning) const {
  std::int64_t wide = value;
  (*this)(name, wide, meaning);
  value = static_cast<int>(wide);
}

void OptionReader::operator()(const char* name, bool& value, const char*) const {
  double given = value;
  if (number(name, given)) value = given != 0;
}

}  // namespace ebb
