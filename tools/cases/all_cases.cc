// SPDX-License-Identifier: MIT
#include "cases/all_cases.h"

#include <functional>
#include <random>

namespace ebb::table {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all = elementwise_cases();
    for (auto more : {activation_cases, tensor_cases, window_cases, grid_sample_cases, distance_cases,
                      channel_norm_cases, attention_cases}) {
      for (Case& c : more()) all.push_back(std::move(c));
    }
    return all;
  }();
  return cases;
}

Operands draw(const Case& c, const std::vector<Index>& shapes, DType dtype, Layout layout, unsigned seed) {
  std::mt19937_64 generator(seed * 7919 + std::hash<std::string>()(c.name) % 100003);
  auto uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1p-53; };
  Operands o;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const Input& in = c.inputs[k];
    Array a(shapes[k]);
    const std::int64_t below = in.index_size >= 0                 ? in.index_size
                               : in.index_axis < shapes[0].size() ? shapes[0][in.index_axis]
                                                                  : 1;
    for (double& x : a.values) {
      const double u = uniform();
      if (in.kind == Input::Kind::mask) {
        x = u < 0.5;
      } else if (in.kind == Input::Kind::index) {
        x = std::floor(u * static_cast<double>(below));
      } else if (is_floating(dtype)) {
        const auto& [low, high] =
            in.domain[static_cast<std::size_t>(uniform() * static_cast<double>(in.domain.size()))];
        x = kept(low + u * (high - low), dtype);
      } else {
        x = std::floor(u * 19) - 9;
        if (dtype == DType::u8) x = std::floor(u * 10);
        if (in.nonzero && x == 0) x = 3;
      }
    }
    const DType own = in.kind == Input::Kind::mask ? DType::bool_ : in.kind == Input::Kind::index ? DType::i64 : dtype;
    o.tensors.push_back(laid_out(a, own, layout));
    o.arrays.push_back(std::move(a));
  }
  return o;
}

}  // namespace ebb::table
