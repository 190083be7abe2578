// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <string_view>

// Numbers as files hold them: 1.5e-3, and as people write them: $1,234.50, 12 %, (1.234,50 €).
namespace ebb {

// A number with a decimal point and nothing around it; NaN and infinity, too.
std::optional<double> plain_number(std::string_view field);

// A number with a decimal comma: 3,14 or -1,5e-3.
std::optional<double> decimal_comma_number(std::string_view field);

// A number with thousands apart, with a unit, or in parentheses, which stand for a minus.
struct Amount {
  double value = 0;
  std::string unit;  // "", "%", "€"
  char decimal = 0;  // the decimal mark where the field tells, as the comma of 1.234,50; otherwise 0
};
// `decimal` ('.' or ',') is the decimal mark of the file: with points, 1,234 has thousands. Plain numbers are not
// amounts.
std::optional<Amount> amount_of(std::string_view field, char decimal);

}  // namespace ebb
