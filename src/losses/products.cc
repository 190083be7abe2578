#include "losses/products.h"

#include "cpu/gemm_bf16.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"

namespace ebb {
namespace {

Tensor turned(const Tensor& x, bool yes) { return yes ? t(x) : x; }

// Factors are rounded where they are made and transposed afterwards: that is one view of one copy, for the value and
// the gradient.
Tensor rounded_factor(const Tensor& x, bool transposed) { return turned(cast(x, DType::bf16), transposed); }

// Y = A'·B', A' = A or Aᵀ, B' = B or Bᵀ:   dA' = G·B'ᵀ,  dB' = A'ᵀ·G,  transposed where A or B was
Tensor rounded_product(const Tensor& a, const Tensor& b, Transposed of) {
  return custom_function(
      [of](const std::vector<Tensor>& in) {
        const Tensor x = rounded_factor(in[0], of.a), y = rounded_factor(in[1], of.b);
        return make_node(Op::matmul, DType::f32, Shape{x.shape()[0], y.shape()[1]}, {x, y});
      },
      [of](const Tensor& g, const Tensor&, const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            of.a ? rounded_product(in[1], g, {of.b, true}) : rounded_product(g, in[1], {false, !of.b}),
            of.b ? rounded_product(g, in[0], {true, of.a}) : rounded_product(in[0], g, {!of.a, false})};
      },
      {a, b});
}

}  // namespace

Tensor loss_product(const Tensor& a, const Tensor& b, bool of_bf16, Transposed of) {
  if (of_bf16 && cpu::gemm_bf16_tiles()) return rounded_product(a, b, of);
  return matmul(turned(a, of.a), turned(b, of.b));
}

}  // namespace ebb
