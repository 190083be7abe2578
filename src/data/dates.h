// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string_view>

namespace ebb {

// How dates are written. The whole column decides which is the day: 31/05/2024 puts it first.
enum class DateOrder { none, year_first, day_first, month_first };

// Days since 1970-01-01 of 2024-05-31, 2024/5/31 23:15, 2024-05-31T23:15:00.5+02:00, 31.5.2024 or 5/31/2024; empty for
// anything else. Times without a zone are taken as UTC.
std::optional<double> days_of(std::string_view field, DateOrder order);

}  // namespace ebb
