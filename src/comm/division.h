// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/nn/parameters.h"
#include "ebb/tensor.h"

// Which rank owns which elements of the parameters: it keeps their moments, sums their gradients, updates them.
namespace ebb::comm {

struct OwnedPart {
  int owner = 0;
  std::int64_t from = 0, to = 0;  // elements
  std::int64_t size() const { return to - from; }
  bool operator==(const OwnedPart&) const = default;
};
using Parts = std::vector<OwnedPart>;  // of one parameter, in order

// Assigns the largest parameters first, each to the rank with the least so far. One that would make a rank's share more
// than a quarter larger than the others' is cut, and the rest goes to the next rank. Depends on shapes alone.
std::vector<Parts> divide(const Parameters& parameters, int ranks);
// The owner of the largest part, who gets the whole parameter where parameters must not be cut.
int main_owner(const Parts& parts);

// This rank's part of those, or null. A rank has at most one part of a parameter.
const OwnedPart* part_of(const Parts& parts, int rank);

// Replaces a gradient of which this rank has only a part, or nothing (undefined): reading it is an Error.
Tensor gradient_with_part(const Shape& shape, DType dtype, const Tensor& part);
bool has_part_only(const Tensor& gradient);  // or nothing
// This part of a gradient, [size], from one that gradient_with_part made or from a whole one.
Tensor gradient_part(const Tensor& gradient, const OwnedPart& part);

// The shape of a part: has as many axes as the parameter, since filters tell matrices from vectors by that.
Shape part_shape(const Shape& whole, const OwnedPart& part);

}  // namespace ebb::comm
