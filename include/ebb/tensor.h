// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/device.h"
#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"

namespace ebb {

class TensorOrScalar;  // ebb/ops/elementwise.h
struct Node;           // a vertex of the computation graph, src/graph/node.h

// A C++ number used with a tensor. It is weakly typed, as in the array API: it takes the tensor's dtype where that can
// hold its kind (an integer with an f16 tensor is f16), and only a real with an integer tensor promotes the result to
// f32.
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, real };
  Scalar(bool v) : real_(v), integer_(v), kind_(Kind::boolean) {}
  Scalar(int v) : Scalar(static_cast<std::int64_t>(v)) {}
  Scalar(unsigned v) : Scalar(static_cast<std::int64_t>(v)) {}
  Scalar(long v) : real_(static_cast<double>(v)), integer_(v), kind_(Kind::integer) {}
  Scalar(long long v) : Scalar(static_cast<long>(v)) {}
  Scalar(unsigned long v) : Scalar(static_cast<long>(v)) {}
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(double v) : real_(v), kind_(Kind::real) {}
  Kind kind() const { return kind_; }
  double real() const { return real_; }
  std::int64_t integer() const { return kind_ == Kind::real ? static_cast<std::int64_t>(real_) : integer_; }
  // The dtype this number takes with a tensor of `dtype`.
  DType dtype_beside(DType dtype) const;

 private:
  double real_ = 0;
  std::int64_t integer_ = 0;
  Kind kind_;
};

// An immutable value: a handle to a node of the graph. Shape and dtype are known immediately, the elements are computed
// when they are needed (item, to_vector, data, printing, eval). Copying copies the handle. Handles may be shared
// between threads.
class Tensor {
 public:
  Tensor() = default;  // no value: `defined()` is false, and using it is an error
  Tensor(const Tensor& o);
  Tensor(Tensor&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  Tensor& operator=(const Tensor& o);
  Tensor& operator=(Tensor&& o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Tensor();

  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const;
  std::int64_t size(std::int64_t axis) const;
  int rank() const { return shape().rank(); }
  std::int64_t numel() const { return shape().numel(); }
  DType dtype() const;
  Device device() const;       // for a value made only from numbers (zeros, random numbers...): the default device
  bool requires_grad() const;  // a variable is upstream and its history is kept

  bool evaluated() const;
  const Tensor& eval() const;      // compute now; returns *this
  Tensor to(Device device) const;  // the same values there; differentiable; this tensor itself if it is already there

  // The value of a one-element tensor, converted to T (double, float, int64_t, int32_t, bool).
  template <class T = double>
  T item() const;
  // All elements, row-major, converted to T (those of item, and uint8_t). Reading a floating tensor as an integer type
  // is an error; as bool it says what is not zero.
  template <class T = double>
  std::vector<T> to_vector() const;
  // The elements themselves (computed, contiguous). T must be the dtype's own C++ type. Valid while this handle lives.
  template <class T>
  const T* data() const;

  // Indexing along the first axis, and NumPy's a[start:stop:step] along any.
  Tensor operator[](std::int64_t index) const;
  Tensor slice(std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  Tensor select(std::int64_t axis, std::int64_t index) const;
  Tensor narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t axis = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t axis = 0) const;

  // Functions of one tensor, in the order they are read: x.exp().sum(1) is sum(exp(x), 1). Each is the function of that
  // name in ebb/ops, where its meaning is written.
  Tensor reshape(const Sizes& sizes) const;
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1) const;
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor permute(const Axes& axes) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor t() const;
  Tensor flip(const Axes& axes = {}) const;
  Tensor expand(const Sizes& sizes) const;
  Tensor contiguous() const;
  Tensor to(DType dtype) const;                                     // cast(x, dtype)
  Tensor to(std::initializer_list<std::nullptr_t>) const = delete;  // to({}): say to(Device{}), or which dtype
  Tensor detach() const;                                            // stop_gradient(x)

  Tensor sum(const Axes& axes = {}, bool keepdim = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false) const;
  Tensor max(const Axes& axes = {}, bool keepdim = false) const;
  Tensor min(const Axes& axes = {}, bool keepdim = false) const;
  Tensor var(const Axes& axes = {}, bool keepdim = false, double correction = 1) const;
  Tensor stddev(const Axes& axes = {}, bool keepdim = false, double correction = 1) const;
  Tensor std(const Axes& axes = {}, bool keepdim = false, double correction = 1) const;  // stddev, as Python calls it
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<std::int64_t> axis = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<std::int64_t> axis = {}, bool keepdim = false) const;
  Tensor cumsum(std::int64_t axis) const;
  Tensor median(std::optional<std::int64_t> axis = {}, bool keepdim = false) const;
  Tensor argsort(std::int64_t axis = -1, bool descending = false) const;
  std::pair<Tensor, Tensor> sort(std::int64_t axis = -1, bool descending = false) const;
  std::pair<Tensor, Tensor> topk(std::int64_t k, std::int64_t axis = -1, bool largest = true) const;

  Tensor exp() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor square() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tanh() const;
  Tensor erf() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor softmax(int axis = -1) const;
  Tensor log_softmax(int axis = -1) const;
  Tensor pow(TensorOrScalar exponent) const;
  Tensor clamp(TensorOrScalar lo, TensorOrScalar hi) const;
  Tensor masked_fill(const Tensor& mask, TensorOrScalar value) const;
  Tensor matmul(const Tensor& b) const;
  Tensor gather(std::int64_t axis, const Tensor& index) const;
  Tensor index_select(std::int64_t axis, const Tensor& index) const;

  // x = x + b and so on: this handle gets a new value, others of the old one keep it.
  Tensor& operator+=(TensorOrScalar b);
  Tensor& operator-=(TensorOrScalar b);
  Tensor& operator*=(TensorOrScalar b);
  Tensor& operator/=(TensorOrScalar b);

  std::string str() const;  // as NumPy prints it

  // For internal use.
  explicit Tensor(Node* node);  // shares ownership
  static Tensor adopt(Node* node) {
    Tensor t;
    t.node_ = node;
    return t;
  }
  Node* node() const { return node_; }

 private:
  Node* node_ = nullptr;  // intrusively counted
};

std::ostream& operator<<(std::ostream& os, const Tensor& t);

// Compute several tensors together: what they share is computed once, and a loss and its gradient become one sweep.
void eval(const std::vector<Tensor>& tensors);

// Within its scope every operation is computed immediately (for debugging: errors come from the line that caused them).
class Eager {
 public:
  Eager();
  ~Eager();
  Eager(const Eager&) = delete;

 private:
  bool before_;
};

// An unevaluated chain deeper than this is evaluated automatically; returns the previous bound.
int set_graph_bound(int depth);

// The sweeps and library calls that computing these tensors would run, as text.
std::string print_schedule(const std::vector<Tensor>& tensors);

}  // namespace ebb
