// SPDX-License-Identifier: MIT
// The functions of ebb/ops that are also methods of Tensor.
#include "ebb/autograd.h"
#include "ebb/ops.h"

namespace ebb {

Tensor Tensor::select(std::int64_t axis, std::int64_t index) const { return ebb::select(*this, axis, index); }
Tensor Tensor::narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const {
  return ebb::narrow(*this, axis, start, length);
}
std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t axis) const { return ebb::split(*this, size, axis); }
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t axis) const {
  return ebb::chunk(*this, chunks, axis);
}
Tensor Tensor::reshape(const Sizes& sizes) const { return ebb::reshape(*this, sizes); }
Tensor Tensor::flatten(std::int64_t first, std::int64_t last) const { return ebb::flatten(*this, first, last); }
Tensor Tensor::squeeze(const Axes& axes) const { return ebb::squeeze(*this, axes); }
Tensor Tensor::unsqueeze(std::int64_t axis) const { return ebb::unsqueeze(*this, axis); }
Tensor Tensor::permute(const Axes& axes) const { return ebb::permute(*this, axes); }
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const { return ebb::transpose(*this, a, b); }
Tensor Tensor::t() const { return ebb::t(*this); }
Tensor Tensor::flip(const Axes& axes) const { return ebb::flip(*this, axes); }
Tensor Tensor::expand(const Sizes& sizes) const { return ebb::expand(*this, sizes); }
Tensor Tensor::contiguous() const { return ebb::contiguous(*this); }
Tensor Tensor::to(DType dtype) const { return ebb::cast(*this, dtype); }
Tensor Tensor::detach() const { return ebb::stop_gradient(*this); }
Tensor Tensor::sum(const Axes& axes, bool keepdim) const { return ebb::sum(*this, axes, keepdim); }
Tensor Tensor::mean(const Axes& axes, bool keepdim) const { return ebb::mean(*this, axes, keepdim); }
Tensor Tensor::prod(const Axes& axes, bool keepdim) const { return ebb::prod(*this, axes, keepdim); }
Tensor Tensor::max(const Axes& axes, bool keepdim) const { return ebb::max(*this, axes, keepdim); }
Tensor Tensor::min(const Axes& axes, bool keepdim) const { return ebb::min(*this, axes, keepdim); }
Tensor Tensor::var(const Axes& axes, bool keepdim, double correction) const {
  return ebb::var(*this, axes, keepdim, correction);
}
Tensor Tensor::stddev(const Axes& axes, bool keepdim, double correction) const {
  return ebb::stddev(*this, axes, keepdim, correction);
}
Tensor Tensor::std(const Axes& axes, bool keepdim, double correction) const {
  return stddev(axes, keepdim, correction);
}
Tensor Tensor::norm(double p, const Axes& axes, bool keepdim) const { return ebb::norm(*this, p, axes, keepdim); }
Tensor Tensor::logsumexp(const Axes& axes, bool keepdim) const { return ebb::logsumexp(*this, axes, keepdim); }
Tensor Tensor::any(const Axes& axes, bool keepdim) const { return ebb::any(*this, axes, keepdim); }
Tensor Tensor::all(const Axes& axes, bool keepdim) const { return ebb::all(*this, axes, keepdim); }
Tensor Tensor::argmax(std::optional<std::int64_t> axis, bool keepdim) const {
  return ebb::argmax(*this, axis, keepdim);
}
Tensor Tensor::argmin(std::optional<std::int64_t> axis, bool keepdim) const {
  return ebb::argmin(*this, axis, keepdim);
}
Tensor Tensor::cumsum(std::int64_t axis) const { return ebb::cumsum(*this, axis); }
Tensor Tensor::median(std::optional<std::int64_t> axis, bool keepdim) const {
  return ebb::median(*this, axis, keepdim);
}
Tensor Tensor::argsort(std::int64_t axis, bool descending) const { return ebb::argsort(*this, axis, descending); }
std::pair<Tensor, Tensor> Tensor::sort(std::int64_t axis, bool descending) const {
  return ebb::sort(*this, axis, descending);
}
std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t axis, bool largest) const {
  return ebb::topk(*this, k, axis, largest);
}
Tensor Tensor::exp() const { return ebb::exp(*this); }
Tensor Tensor::expm1() const { return ebb::expm1(*this); }
Tensor Tensor::log() const { return ebb::log(*this); }
Tensor Tensor::log1p() const { return ebb::log1p(*this); }
Tensor Tensor::sqrt() const { return ebb::sqrt(*this); }
Tensor Tensor::rsqrt() const { return ebb::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return ebb::reciprocal(*this); }
Tensor Tensor::square() const { return ebb::square(*this); }
Tensor Tensor::abs() const { return ebb::abs(*this); }
Tensor Tensor::sign() const { return ebb::sign(*this); }
Tensor Tensor::floor() const { return ebb::floor(*this); }
Tensor Tensor::ceil() const { return ebb::ceil(*this); }
Tensor Tensor::round() const { return ebb::round(*this); }
Tensor Tensor::sin() const { return ebb::sin(*this); }
Tensor Tensor::cos() const { return ebb::cos(*this); }
Tensor Tensor::tanh() const { return ebb::tanh(*this); }
Tensor Tensor::erf() const { return ebb::erf(*this); }
Tensor Tensor::sigmoid() const { return ebb::sigmoid(*this); }
Tensor Tensor::relu() const { return ebb::relu(*this); }
Tensor Tensor::softmax(int axis) const { return ebb::softmax(*this, axis); }
Tensor Tensor::log_softmax(int axis) const { return ebb::log_softmax(*this, axis); }
Tensor Tensor::pow(TensorOrScalar exponent) const { return ebb::pow(*this, exponent); }
Tensor Tensor::clamp(TensorOrScalar lo, TensorOrScalar hi) const { return ebb::clamp(*this, lo, hi); }
Tensor Tensor::masked_fill(const Tensor& mask, TensorOrScalar value) const {
  return ebb::masked_fill(*this, mask, value);
}
Tensor Tensor::matmul(const Tensor& b) const { return ebb::matmul(*this, b); }
Tensor Tensor::gather(std::int64_t axis, const Tensor& index) const { return ebb::gather(*this, axis, index); }
Tensor Tensor::index_select(std::int64_t axis, const Tensor& index) const {
  return ebb::index_select(*this, axis, index);
}
Tensor& Tensor::operator+=(TensorOrScalar b) { return *this = *this + b; }
Tensor& Tensor::operator-=(TensorOrScalar b) { return *this = *this - b; }
Tensor& Tensor::operator*=(TensorOrScalar b) { return *this = *this * b; }
Tensor& Tensor::operator/=(TensorOrScalar b) { return *this = *this / b; }

}  // namespace ebb
