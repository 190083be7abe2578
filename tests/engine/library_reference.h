// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "backend/call.h"
#include "numbers_by_dtype.h"

// Library operations by their definitions: one element after the other, in double. Covers those that take a few lines;
// the others have references next to their tests.
namespace ebb::testing {

class LibraryReference {
 public:
  explicit LibraryReference(const LibraryCall& call)
      : call_(call), out_(call.outputs[0]), axis_(static_cast<int>(call.attrs.i[0])) {}

  // False for an operation not covered here.
  bool run() {
    if (call_.outputs.size() != 1) return false;
    switch (call_.op) {
      case Op::matmul:
        matmul();
        break;
      case Op::gather:
        each(out_.shape, [&](const Place& p) { put(p, get(in(0), moved(p, index(1, p)))); });
        break;
      case Op::scatter_zero_add:
        fill_zero();
        each(in(0).shape, [&](const Place& p) { add(moved(p, index(1, p)), get(in(0), p)); });
        break;
      case Op::scatter:
        each(out_.shape, [&](const Place& p) { put(p, get(in(0), p)); });
        each(in(1).shape, [&](const Place& p) { put(moved(p, index(1, p)), get(in(2), p)); });
        break;
      case Op::index_select:
        each(out_.shape, [&](const Place& p) { put(p, get(in(0), moved(p, index(1, {at(p)})))); });
        break;
      case Op::index_zero_add:
        fill_zero();
        each(in(0).shape, [&](const Place& p) { add(moved(p, index(1, {at(p)})), get(in(0), p)); });
        break;
      case Op::cat:
        cat();
        break;
      case Op::pad_zero:
        fill_zero();
        each(in(0).shape, [&](const Place& p) { put(moved(p, at(p) + call_.attrs.i[1]), get(in(0), p)); });
        break;
      case Op::cumsum:
      case Op::cumprod:
        scan();
        break;
      case Op::linear_recurrence:
        recurrence();
        break;
      case Op::argmax:
      case Op::argmin:
        arg_extremum();
        break;
      default:
        return false;
    }
    const int rank = out_.shape.rank();
    const std::int64_t columns = rank == 0 ? 1 : out_.shape[rank - 1];
    for (std::size_t k = 0; k < results_.size(); ++k) {
      const auto i = static_cast<std::int64_t>(k);
      write_number(out_.dtype, out_.data, i + i / columns * out_.room, results_[k]);
    }
    return true;
  }

 private:
  using Place = std::vector<std::int64_t>;

  const View& in(std::size_t k) const { return call_.inputs[k]; }
  std::int64_t at(const Place& p) const { return p[static_cast<std::size_t>(axis_)]; }
  Place moved(Place p, std::int64_t to) const {
    p[static_cast<std::size_t>(axis_)] = to;
    return p;
  }
  static double get(const View& v, const Place& p) {
    std::int64_t address = 0;
    for (std::size_t d = 0; d < p.size(); ++d) address += p[d] * v.strides[static_cast<int>(d)];
    return read_number(v.dtype, v.data, address);
  }
  std::int64_t index(std::size_t input, const Place& p) const { return static_cast<std::int64_t>(get(in(input), p)); }

  // Results are kept in double and rounded at the end: sums are rounded once.
  double& result(const Place& p) {
    results_.resize(static_cast<std::size_t>(out_.shape.numel()));
    std::int64_t linear = 0;
    for (std::size_t d = 0; d < p.size(); ++d) linear = linear * out_.shape[static_cast<int>(d)] + p[d];
    return results_[static_cast<std::size_t>(linear)];
  }
  void put(const Place& p, double x) { result(p) = x; }
  void add(const Place& p, double x) { result(p) += x; }
  void fill_zero() { results_.assign(static_cast<std::size_t>(out_.shape.numel()), 0.0); }

  template <class Body>
  static void each(const Shape& shape, Body body) {
    if (shape.numel() == 0) return;
    Place p(static_cast<std::size_t>(shape.rank()), 0);
    while (true) {
      body(p);
      std::size_t d = p.size();
      while (d > 0 && ++p[d - 1] == shape[static_cast<int>(d - 1)]) p[--d] = 0;
      if (d == 0) return;
    }
  }

  void matmul() {
    each(out_.shape, [&](const Place& p) {
      Place a = p, b = p;
      double sum = 0;
      for (std::int64_t k = 0; k < in(0).shape[in(0).shape.rank() - 1]; ++k) {
        a.back() = k;
        b[b.size() - 2] = k;
        sum += get(in(0), a) * get(in(1), b);
      }
      put(p, sum);
    });
  }
  void cat() {
    std::int64_t first = 0;
    for (const View& v : call_.inputs) {
      each(v.shape, [&](const Place& p) { put(moved(p, first + at(p)), get(v, p)); });
      first += v.shape[axis_];
    }
  }
  void scan() {
    each(out_.shape, [&](const Place& p) {
      const double x = get(in(0), p);
      if (at(p) == 0) return put(p, x);
      const double before = result(moved(p, at(p) - 1));
      put(p, call_.op == Op::cumsum ? before + x : before * x);
    });
  }
  void recurrence() {
    each(out_.shape, [&](const Place& p) {
      if (at(p) != 0) return;
      double carry = 0;
      for (std::int64_t k = out_.shape[axis_]; k-- > 0;) {
        const Place here = moved(p, k);
        const double s = get(in(0), here) + carry;
        put(here, s);
        carry = get(in(1), here) * s;
      }
    });
  }
  void arg_extremum() {
    each(out_.shape, [&](const Place& p) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < in(0).shape[axis_]; ++k) {
        const double x = get(in(0), moved(p, k)), y = get(in(0), moved(p, best));
        if (y == y && (x != x || (call_.op == Op::argmax ? x > y : x < y)))
          best = k;  // the first NaN, the first of equals
      }
      put(p, static_cast<double>(best));
    });
  }

  const LibraryCall& call_;
  const View& out_;
  int axis_;
  std::vector<double> results_;
};

}  // namespace ebb::testing
