// SPDX-License-Identifier: MIT
#include "losses/products.h"

#include "backend/backend.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"

namespace ebb {
namespace {

// Factors are rounded first and transposed afterwards: that is one copy, for the value and the gradient.
Tensor factor(const Tensor& x, bool transposed) {
  const Tensor rounded = cast(x, DType::bf16);
  return transposed ? t(rounded) : rounded;
}

}  // namespace

bool rounds_factors(DType loss, Device device, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kWorthIt = 1 << 18;  // about ten microseconds in f32
  return loss == DType::bf16 && m * n * k >= kWorthIt && backend_of(device).rounds_to_bf16();
}

Tensor product_of_bf16(const Tensor& a, const Tensor& b) {
  return make_node(Op::matmul, DType::f32, Shape{a.shape()[0], b.shape()[1]}, {a, b});
}

// Y = A'·B', A' = A or Aᵀ, B' = B or Bᵀ:   dA' = G·B'ᵀ,  dB' = A'ᵀ·G,  transposed where A or B was
Tensor rounded_product(const Tensor& a, const Tensor& b, Transposed of, const std::function<Tensor()>& value) {
  return custom_function(
      [&](const std::vector<Tensor>& in) {
        return value ? value() : product_of_bf16(factor(in[0], of.a), factor(in[1], of.b));
      },
      [of](const Tensor& g, const Tensor&, const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            of.a ? rounded_product(in[1], g, {of.b, true}) : rounded_product(g, in[1], {false, !of.b}),
            of.b ? rounded_product(g, in[0], {true, of.a}) : rounded_product(in[0], g, {!of.a, false})};
      },
      {a, b});
}

}  // namespace ebb
