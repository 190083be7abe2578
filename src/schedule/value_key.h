// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "schedule/values.h"

namespace ebb {

// Values computed in the same way from the same values are equal.
struct ValueKeyHash {
  const std::vector<Value>* values;
  std::size_t operator()(std::int32_t v) const {
    const Value& x = (*values)[v];
    std::uint64_t h = static_cast<std::uint64_t>(x.op) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(x.dtype);
    auto mix = [&h](std::uint64_t w) { h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32; };
    for (std::int64_t s : x.shape) mix(static_cast<std::uint64_t>(s));
    for (std::int32_t i : x.inputs) mix(static_cast<std::uint64_t>(i));
    for (std::int64_t a : x.attrs.i) mix(static_cast<std::uint64_t>(a));
    mix(x.attrs.axes);
    if (x.attrs.options) mix(x.attrs.options->hash());
    std::uint64_t bits;
    std::memcpy(&bits, &x.literal, sizeof bits);
    mix(bits);
    return h;
  }
};
struct ValueKeyEqual {
  const std::vector<Value>* values;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const Value &x = (*values)[a], &y = (*values)[b];
    return x.op == y.op && x.dtype == y.dtype && x.shape == y.shape && x.inputs == y.inputs && x.attrs == y.attrs &&
           x.label == y.label && x.literal == y.literal && !x.is_leaf && !y.is_leaf && !x.is_unique && !y.is_unique;
  }
};

}  // namespace ebb
