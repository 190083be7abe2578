// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "bind.h"
#include "graph/node.h"

// A tensor's memory for others, and others' memory for a tensor.
namespace ebb::python {

// The elements of a tensor, computed, where they lie. Holding it keeps the memory, not the tensor's history.
struct MemoryView {
  BufferPtr buffer;
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> shape{}, strides{};  // in elements, none of them negative
  ~MemoryView();
  std::optional<std::uintptr_t> stream;  // of whoever uses the memory: it is used again after what that was given
};
enum class ViewLayout {
  as_it_lies,
  dense,
  copied
};  // dense: in a row; copied: in a row, in memory that nothing else uses
std::unique_ptr<MemoryView> view_memory(const Tensor& x, ViewLayout layout = ViewLayout::as_it_lies,
                                        Device device = {});

Device place_of(const Tensor& x);  // where its elements are, or will be
Tensor copy_of(const Tensor& x);   // its elements in memory that nothing else uses, on the same device

// Foreign elements as a tensor. Where they lie densely, in whatever order of axes, or on a GPU, they are not copied and
// `release` is called when nothing uses them any more; otherwise they are copied and `release` is called at once.
struct Foreign {
  void* data;
  DType dtype;
  int rank;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in bytes; null: row-major
  std::function<void()> release;
  Device device = {};
};
enum class Copy { never, if_needed, always };
Tensor adopt_memory(Foreign foreign, Copy copy, const char* op);

}  // namespace ebb::python
