// SPDX-License-Identifier: MIT
#include "ebb/nn/parameters.h"

#include <set>

#include "core/format_error.h"

namespace ebb {

std::int64_t count_elements(const Parameters& parameters) {
  std::int64_t n = 0;
  for (const Parameter& p : parameters) n += p.tensor->numel();
  return n;
}

namespace {

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "nothing" : text;
}

}  // namespace

void detail::load_state_dict(const Parameters& parameters, const Parameters& buffers,
                             const std::map<std::string, Tensor>& tensors) {
  std::set<std::string> missing, unknown;
  for (const auto& [name, tensor] : tensors) unknown.insert(name);
  for (const Parameters* all : {&parameters, &buffers}) {
    for (const Parameter& p : *all) {
      if (unknown.erase(p.name) == 0) missing.insert(p.name);
    }
  }
  require(missing.empty() && unknown.empty(), "load_state_dict: missing {}; unknown {}", joined(missing),
          joined(unknown));
  for (const Parameters* all : {&parameters, &buffers}) {
    for (const Parameter& p : *all) {
      const Tensor& given = tensors.at(p.name);
      require(given.defined(), "load_state_dict: {} is an empty Tensor", p.name);
      require(given.shape() == p.tensor->shape(), "load_state_dict: {} has shape {}, the model's {}", p.name,
              given.shape(), p.tensor->shape());
    }
  }
  const auto like = [&](const Parameter& p) {
    return cast(tensors.at(p.name).to(p.tensor->device()), p.tensor->dtype());
  };
  for (const Parameter& p : parameters) *p.tensor = variable(like(p));
  for (const Parameter& b : buffers) *b.tensor = stop_gradient(like(b));
}

}  // namespace ebb
