// SPDX-License-Identifier: MIT
#include "graph/effects.h"

namespace ebb {
namespace {

thread_local Effects* noted = nullptr;

}  // namespace

Effects::Effects() : outer_(noted) { noted = this; }
Effects::~Effects() { noted = outer_; }
Effects* Effects::current() { return noted; }

std::vector<Tensor> Effects::last() const {
  std::vector<Tensor> all;
  for (const auto& [whose, effect] : last_) {
    if (effect.defined()) all.push_back(effect);
  }
  return all;
}

}  // namespace ebb
