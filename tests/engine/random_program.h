// SPDX-License-Identifier: MIT
#pragma once
#include <random>
#include <vector>

#include "cases/test_tensor.h"
#include "ebb/ebb.h"

namespace ebb::testing {

// Kinds of steps of a random program.
struct ProgramKinds {
  bool sums = true;     // whose order depends on which axes are the rows of the sweep they are computed in
  bool library = true;  // calls on whole tensors
  bool kinks = true;    // steps whose slope jumps
};

// A random graph over one space: full tensors, rows, columns and numbers. Identical for the same seed whenever it is
// built. Every step keeps values near one in size, so that differences in rounding do not grow.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, DType dtype, ProgramKinds kinds) : g_(seed), dtype_(dtype), kinds_(kinds) {
    // Tails, long rows, nothing; more than 8,192 elements (loops of machine code) and more than 16,384 (sweeps that
    // cannot wait for their own totals).
    static const Shape kSpaces[] = {{5, 7}, {33, 3},  {4, 1030}, {2, 3, 5}, {1, 9},     {64, 1},
                                    {17},   {90, 95}, {3, 0, 2}, {8, 2100}, {150, 113}, {17001}};
    space_ = kSpaces[g_() % std::size(kSpaces)];
    for (int k = 0; k < 3; ++k) add_leaf(space_);
    Shape row = space_, column = space_;
    for (int d = 0; d + 1 < space_.rank(); ++d) row = row.with(d, 1);
    column = column.with(space_.rank() - 1, 1);
    add_leaf(row);
    add_leaf(column);
    add_leaf(Shape{});
    const std::int64_t columns = space_[space_.rank() - 1];
    if (space_.numel() == 0) return;
    std::vector<std::int64_t> picks(static_cast<std::size_t>(column.numel()));
    for (auto& p : picks) p = static_cast<std::int64_t>(g_() % static_cast<unsigned>(columns));
    index_ = table::test_tensor(picks, column, DType::i64);
  }

  const Shape& space() const { return space_; }
  const std::vector<Tensor>& leaves() const { return leaves_; }

  // `steps` further nodes on these leaves; returns some of them.
  std::vector<Tensor> build(int steps, const std::vector<Tensor>& leaves) const {
    std::mt19937 g = g_;
    std::vector<Tensor> pool = leaves, results;
    auto any = [&] { return pool[g() % pool.size()]; };
    auto full = [&] {  // one of the space's shape
      for (int tries = 0; tries < 20; ++tries) {
        const Tensor t = any();
        if (t.shape() == space_) return t;
      }
      return leaves[0];
    };
    for (int s = 0; s < steps; ++s) {
      Tensor made;
      while (!made.defined()) made = step(g, any, full);
      pool.push_back(made);
      if (g() % 4 == 0) results.push_back(made);
    }
    results.push_back(pool.back());
    return results;
  }
  std::vector<Tensor> build(int steps) const { return build(steps, leaves_); }

 private:
  void add_leaf(const Shape& shape) {
    std::vector<double> v(static_cast<std::size_t>(shape.numel()));
    for (double& x : v) x = static_cast<double>(g_()) * 0x1p-31 - 1;
    leaves_.push_back(table::test_tensor(v, shape, dtype_));
  }

  // Undefined if the step does not suit this space or is not of these kinds.
  template <class Any, class Full>
  Tensor step(std::mt19937& g, Any any, Full full) const {
    const int last = space_.rank() - 1;
    // Only leaves are compared: a rounding must not decide what a program computes.
    auto leaf = [&] { return stop_gradient(leaves_[g() % leaves_.size()]); };
    const bool filled = space_.numel() > 0;
    switch (g() % 22) {
      case 0: {
        const Tensor a = any(), b = any();
        return a + b * 0.5;
      }
      case 1: {
        const Tensor a = any(), b = any();
        return tanh(a - b);
      }
      case 2: {
        const Tensor a = any(), b = any();
        return sigmoid(a) * b;
      }
      case 3: {
        const Tensor mask = leaf() > 0.1013, a = any(), b = any();
        return where(mask, a, -b);
      }
      case 4:
        return kinds_.kinks ? sqrt(abs(any()) + 0.5) : sqrt(square(any()) + 0.5);
      case 5: {
        const Tensor a = any(), b = any();
        return kinds_.kinks ? maximum(a, 0.3 * b) : Tensor();
      }
      case 6: {
        const Tensor a = any(), b = any();
        return cos(a) / (1 + square(b));
      }
      case 7:
        return kinds_.sums ? mean(full(), last, true) : Tensor();
      case 8:
        return filled && kinds_.sums ? softmax(full()) : Tensor();
      case 9:
        return filled && kinds_.sums ? 0.2 * log_softmax(full()) : Tensor();
      case 10:
        return kinds_.sums && space_.rank() > 1 ? mean(full(), 0, true) : Tensor();
      case 11: {
        const Tensor a = full(), b = full();
        return kinds_.sums ? mean(a * b) : Tensor();
      }
      case 12: {
        const Tensor a = full(), b = full();
        return filled && kinds_.kinks ? max(a, last, true) - min(b, last, true) : Tensor();
      }
      case 13:
        return space_.rank() > 1 ? transpose(transpose(full(), 0, last) * 0.7, 0, last) : Tensor();
      case 14:
        return reshape(reshape(full(), {space_.numel()}) * 0.9, space_);
      case 15:
        return index_.defined() ? gather(full(), last, index_) : Tensor();
      case 16:  // a step function, if looked at closely
        return kinds_.kinks ? cast(cast(any(), dtype_ == DType::f64 ? DType::f32 : DType::f64), dtype_) : Tensor();
      case 17:
        return filled && kinds_.sums ? layer_norm(full(), {space_[last]}) * 0.3 : Tensor();
      case 18: {
        const Tensor mask = leaf() > 0.0513, a = full(), b = full();
        return cast(mask, dtype_) * a + slice(b, last, -1, kEnd, -1);
      }
      case 19:
        return kinds_.library ? cumsum(full(), 0) * (1.0 / static_cast<double>(space_[0] + 1)) : Tensor();
      case 20: {
        const Tensor a = full(), b = full();
        const std::int64_t half = space_[0] / 2;
        return kinds_.library ? cat({narrow(a, 0, 0, half), narrow(b, 0, half, space_[0] - half)}, 0) : Tensor();
      }
      default: {
        // A product of small matrices: its cost grows with the square of the space.
        if (!kinds_.library || space_.numel() > 3000 || !filled) return {};
        const Tensor a = full(), b = full();
        const Tensor p = tanh(matmul(a, transpose(b, -1, last == 0 ? 0 : -2)) * 0.1);
        return kinds_.sums ? a * mean(p) : last == 0 ? a * p : a * max(p, p.rank() - 1, true);
      }
    }
  }

  std::mt19937 g_;
  DType dtype_;
  ProgramKinds kinds_;
  Shape space_;
  std::vector<Tensor> leaves_;
  Tensor index_;
};

}  // namespace ebb::testing
