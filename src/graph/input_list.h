// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace ebb {

struct Node;

// The inputs of a node: nearly always at most three, which are stored inline.
class InputList {
 public:
  InputList() = default;
  InputList(InputList&& o) noexcept : size_(std::exchange(o.size_, 0)), few_(o.few_), many_(std::move(o.many_)) {}
  InputList& operator=(InputList&&) = delete;

  // Reserves room for n inputs; the list stays empty.
  void reserve(std::size_t n) {
    if (n > few_.size()) many_ = std::make_unique<Node*[]>(n);
  }
  void push_back(Node* node) { begin()[size_++] = node; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Node*& operator[](std::size_t k) { return begin()[k]; }
  Node* operator[](std::size_t k) const { return begin()[k]; }
  Node** begin() { return many_ ? many_.get() : few_.data(); }
  Node** end() { return begin() + size_; }
  Node* const* begin() const { return many_ ? many_.get() : few_.data(); }
  Node* const* end() const { return begin() + size_; }

 private:
  std::size_t size_ = 0;
  std::array<Node*, 3> few_{};
  std::unique_ptr<Node*[]> many_;
};

}  // namespace ebb
