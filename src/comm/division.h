// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/nn/parameters.h"
#include "ebb/tensor.h"

// Who owns which elements of the parameters: keeps their moments, sums their gradients, updates them.
namespace ebb::comm {

struct OwnedPart {
  int owner = 0;
  std::int64_t from = 0, to = 0;  // elements
  std::int64_t size() const { return to - from; }
  bool operator==(const OwnedPart&) const = default;
};
using Parts = std::vector<OwnedPart>;  // of one parameter, in order

// The largest parameters first, each to the rank that has least. One that would make its share larger than others' by
// more than a quarter is cut, and the rest of it goes on to the next rank. Depends on shapes alone.
std::vector<Parts> divide(const Parameters& parameters, int ranks);
// The owner of the largest part, who has all of it where parameters must not be cut.
int main_owner(const Parts& parts);

// This rank's part of those, or null. A rank has one part of a parameter at most.
const OwnedPart* part_of(const Parts& parts, int rank);

// In place of a gradient of which this rank has only a part, or nothing (an undefined one): reading it is an Error.
Tensor gradient_with_part(const Shape& shape, DType dtype, const Tensor& part);
bool has_part_only(const Tensor& gradient);  // or nothing
// This part of a gradient, [size], from one that gradient_with_part made or from a whole one.
Tensor gradient_part(const Tensor& gradient, const OwnedPart& part);

// The shape of a part: it has as many axes as the parameter, by which filters tell matrices from vectors.
Shape part_shape(const Shape& whole, const OwnedPart& part);

}  // namespace ebb::comm
