// SPDX-License-Identifier: MIT
#include "cuda/plan/walk.h"

namespace ebb::cuda {
namespace {

template <class Visit>
bool all_strides(const Program& p, Visit&& visit) {
  for (const Operand& o : p.operands) {
    if (o.kind != Operand::Kind::constant && !visit(o.strides)) return false;
  }
  for (const Output& o : p.outputs) {
    if (!visit(o.strides)) return false;
  }
  return true;
}

}  // namespace

Walk make_walk(const Program& p, int from, int to, const std::string& linear, const std::string& coordinate) {
  Walk w;
  w.linear = linear;
  w.coordinate = coordinate;
  for (int d = from; d < to; ++d) {
    const std::int64_t size = p.dims[static_cast<std::size_t>(d)];
    if (size == 1) continue;
    const bool joins =
        !w.sizes.empty() && all_strides(p, [&](const Strides& s) { return s[w.last.back()] == s[d] * size; });
    if (joins) {
      w.sizes.back() *= size;
      w.last.back() = d;
    } else {
      w.sizes.push_back(size);
      w.last.push_back(d);
    }
  }
  return w;
}

}  // namespace ebb::cuda
