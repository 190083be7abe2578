// SPDX-License-Identifier: MIT
#include "io/json.h"

#include <set>
#include <vector>

#include "core/format_error.h"

namespace ebb::io {

nlohmann::json parse_json(std::string_view text, int depth, const std::string& where) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int level, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      require(level < depth, Error::Kind::io, "{}: its JSON is nested more than {} levels deep", where, depth);
      if (event == Event::object_start) keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(keys.back().insert(key).second, Error::Kind::io, "{}: its JSON has the key '{}' twice", where, key);
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail(Error::Kind::io, "{}: its JSON cannot be read: {}", where, error.what());
  }
}

}  // namespace ebb::io
