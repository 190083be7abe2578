// SPDX-License-Identifier: MIT
#include "ebb/ops/fp8.h"

#include "calls/fp8_product.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb {

Tensor fp8_product(const Tensor& a, const Tensor& b, bool left_e5m2, bool right_e5m2) {
  return make_node(Op::matmul, a.dtype(), Shape{a.size(0), b.size(1)}, {a, b},
                   with_options(Fp8Product{true, left_e5m2, right_e5m2}), "fp8_linear");
}

Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(weight.rank() == 2 && x.rank() >= 1 && x.size(-1) == weight.size(1),
          "fp8_linear: an input of shape {} and a weight of shape {} do not fit; the weight is [out, in]", x.shape(),
          weight.shape());
  require(!bias.defined() || (bias.rank() == 1 && bias.numel() == weight.size(0)),
          "fp8_linear: bias of shape {} does not fit {} outputs", bias.defined() ? bias.shape() : Shape{},
          weight.size(0));
  const DType dtype = promote(x.dtype(), weight.dtype());
  require(dtype == DType::f32 || is_half(dtype), Error::Kind::type,
          "fp8_linear: needs f32, f16 or bf16, got {} and {}; linear() multiplies other numbers", name(x.dtype()),
          name(weight.dtype()));
  const std::int64_t rows = x.shape().with(x.rank() - 1, 1).numel();
  const Tensor flat = reshape(cast(x, dtype), {rows, weight.size(1)});
  const Tensor y =
      reshape(fp8_product(flat, t(cast(weight, dtype)), false, false), x.shape().with(x.rank() - 1, weight.size(0)));
  return bias.defined() ? y + bias : y;
}

}  // namespace ebb
