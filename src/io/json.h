// SPDX-License-Identifier: MIT
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ebb::io {

// Parses untrusted JSON: at most `depth` levels, no key twice in an object, nothing after its end. `where` begins the
// text of errors.
nlohmann::json parse_json(std::string_view text, int depth, const std::string& where);

}  // namespace ebb::io
