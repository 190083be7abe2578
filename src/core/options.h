// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "ebb/options.h"

// Options structs are described once, by a function each_option(v, options) that calls v(name, member, meaning) for
// every member. The list shown to programs and the values they pass both go through it; defaults are those of the
// struct.
namespace ebb {

std::string text_of_default(double value);  // the shorter of 0.001 and 1e-3

// An option given as text: "0.1", "true" or "sum". `owner` is the loss or optimiser, for errors.
OptionValue option_from_text(std::string_view owner, const OptionInfo& option, std::string_view text);

template <class Items>
std::vector<std::string_view> names_in(const Items& items) {
  std::vector<std::string_view> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

[[noreturn]] void fail_for_name(std::string_view owner, const char* what, std::string_view name,
                                const std::vector<std::string_view>& there);

// The item of that name; throws an Error listing the existing names if there is none.
template <class Item>
const Item& find_named(const std::vector<Item>& items, std::string_view name, std::string_view owner,
                       const char* what) {
  for (const Item& item : items) {
    if (item.name == name) return item;
  }
  fail_for_name(owner, what, name, names_in(items));
}

// Lists the options of a struct.
class OptionLister {
 public:
  std::vector<OptionInfo> options;
  std::size_t members = 0;  // of the struct, visited

  void operator()(const char* name, double value, const char* meaning) {
    add(name, text_of_default(value), meaning, OptionInfo::Kind::number);
  }
  void operator()(const char* name, std::int64_t value, const char* meaning) {
    add(name, std::to_string(value), meaning, OptionInfo::Kind::integer);
  }
  void operator()(const char* name, int value, const char* meaning) {
    (*this)(name, static_cast<std::int64_t>(value), meaning);
  }
  void operator()(const char* name, bool value, const char* meaning) {
    add(name, value ? "true" : "false", meaning, OptionInfo::Kind::flag);
  }
  // A member that is neither a number nor a string, such as a function: only C++ can set it.
  template <class Member>
  void only_in_cpp(const Member&) {
    ++members;
  }

 protected:
  void add(const char* name, std::string value, const char* meaning, OptionInfo::Kind kind);
};

// Assigns the given values to the members.
class OptionReader {
 public:
  OptionReader(std::string_view owner, const OptionValues& values) : owner_(owner), values_(values) {}

  void operator()(const char* name, double& value, const char*) const { number(name, value); }
  void operator()(const char* name, std::int64_t& value, const char*) const;
  void operator()(const char* name, int& value, const char* meaning) const;
  void operator()(const char* name, bool& value, const char*) const;
  template <class Member>
  void only_in_cpp(const Member&) const {}

 protected:
  bool number(const char* name, double& value) const;  // was it given?
  bool word(const char* name, std::string& value) const;

 private:
  std::string_view owner_;
  const OptionValues& values_;
};

// ---- a check that each_option forgot no member
// -----------------------------------------------------------------------

struct AnyMember {
  template <class T>
  operator T() const;
};

template <class Struct, class... Members>
consteval std::size_t member_count() {
  if constexpr (requires { Struct{Members{}..., AnyMember{}}; }) {
    return member_count<Struct, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

template <class Lister, class Struct>
void list_options(Lister& lister, std::string_view owner) {
  Struct defaults;
  const std::size_t before = lister.members;
  each_option(lister, defaults);
  require(lister.members - before == member_count<Struct>(), "internal: each_option of {} names {} of its {} options",
          owner, lister.members - before, member_count<Struct>());
}

}  // namespace ebb
