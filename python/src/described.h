// SPDX-License-Identifier: MIT
#pragma once
#include "bind.h"
#include "ebb/options.h"

// Options of the registries as Python sees them.
namespace ebb::python {

inline nb::object default_of(const OptionInfo& o) {
  switch (o.kind) {
    case OptionInfo::Kind::flag:
      return nb::cast(o.default_value == "true");
    case OptionInfo::Kind::integer:
      return nb::cast(std::stoll(o.default_value));
    case OptionInfo::Kind::number:
      return nb::cast(std::stod(o.default_value));
    default:
      return nb::cast(o.default_value);
  }
}

// (name, default, meaning) of each; `defaults` are those objects, for the signatures.
inline nb::list described(const std::vector<OptionInfo>& options, const std::vector<nb::object>& defaults) {
  nb::list all;
  for (std::size_t k = 0; k < options.size(); ++k) {
    all.append(nb::make_tuple(options[k].name, defaults[k], options[k].meaning));
  }
  return all;
}

inline std::vector<nb::object> defaults_of(const std::vector<OptionInfo>& options) {
  std::vector<nb::object> all;
  for (const OptionInfo& o : options) all.push_back(default_of(o));
  return all;
}

inline OptionValue option_value(std::string_view owner, std::string_view option, nb::handle given) {
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  Scalar number(0);
  if (scalar_from_object(given, number)) return number.real();
  throw Error(Error::Kind::type, std::string(owner) + ": the option " + std::string(option) +
                                     " is a number or a word, got " +
                                     nb::cast<std::string>(given.type().attr("__name__")));
}

}  // namespace ebb::python
