// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/trace.h"

namespace ebb {

class Backend;

// A traced graph after simplification: aliases are gone, equal values are merged, views know their memory.
struct Value {
  Op op;
  DType dtype;
  Shape shape;
  Attrs attrs;
  const char* label = nullptr;
  std::vector<std::int32_t> inputs;
  std::int32_t node = -1;  // the traced node it stands for; -1 for a literal
  bool is_leaf = false;
  bool is_unique = false;         // never merged with another value
  double literal = 0;             // value of a literal constant added by a simplification (op constant, node -1)
  bool is_one = false;            // a constant known to be one
  std::int32_t strips = -1;       // the loop of strips that fills its memory (strips.h); its inputs are the loop's
  std::int32_t strip_output = 0;  // which of the loop's outputs it is

  // A view (op reshape, permute, expand, narrow, output, depend) of the memory of `base`.
  std::int32_t base = -1;  // itself if it is not a view
  std::int64_t offset = 0;
  Strides strides;  // of a leaf or a view: where elements are, relative to the base's first element
  // Unused elements in memory after each line of the last dimension, or of the dimension of a view that shows it
  // (row_room.h).
  std::int64_t room = 0;
  // The dimension of the base that each dimension corresponds to, -1 where it is new (size 1, or repeated by expand).
  // Only when `mappable`: the view merely renames, drops or repeats dimensions, so it can be followed inside a sweep.
  bool mappable = false;
  std::array<std::int8_t, Shape::kMaxRank> shows{};

  bool is_view() const { return base >= 0; }
  // A step of its own, whose results are in memory.
  bool is_call() const { return !is_leaf && (strips >= 0 || info(op).cls == OpClass::library); }
};

// Where v's elements are in memory, relative to the first one of its base (without a view's offset).
Strides strides_of(const Value& v);
// Elements of memory that a plan's steps allocate for v, which is not a view.
std::int64_t allocated_elements(const Value& v);

struct ValueGraph {
  std::vector<Value> values;          // inputs before users
  std::vector<std::int32_t> of_node;  // value of each traced node
  std::vector<std::int32_t> roots;

  // The value whose memory v uses: itself, unless it is a view.
  std::int32_t base(std::int32_t v) const { return values[v].is_view() ? values[v].base : v; }
  // The value whose step fills that memory: for one of several outputs of a call, the call.
  std::int32_t memory(std::int32_t v) const {
    const std::int32_t b = base(v);
    return values[b].op == Op::output ? values[b].inputs[0] : b;
  }
};

// Slices of the rows of products of at least `large` bytes become products of slices.
inline constexpr std::int64_t kNeverLarge = std::int64_t{1} << 62;
struct SimplifyOptions {
  std::int64_t large = kNeverLarge;
  const Backend* backend = nullptr;  // may prefer another order of images in memory; null: no device
};
ValueGraph simplify(const Trace& trace, const SimplifyOptions& options = {});

// Restores the order of values whose inputs have changed: inputs before users. Returns the new index of each.
std::vector<std::int32_t> sort_inputs_first(ValueGraph& graph);

}  // namespace ebb
