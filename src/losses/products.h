// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "ebb/tensor.h"

// Products of matrices inside bf16 losses, on processors with instructions for products of bf16. A loss is computed in
// f32; these products round their factors to bf16 and keep sums and results f32, in the gradient too. A factor's
// relative error is then 2^-9, the same as from rounding the loss's inputs. That is harmless as long as such a product
// is not subtracted from something nearly equal: a loss that needs a few elements of a product takes them from the
// product, so that their gradient is subtracted before it is rounded.
namespace ebb {

// Whether a loss of this dtype does so on this device, for products of [m, k] and [k, n]. Otherwise it multiplies in
// its compute dtype: small products are not worth the scaling and rounding.
bool rounds_factors(DType loss, Device device, std::int64_t m, std::int64_t n, std::int64_t k);

struct Transposed {
  bool a = false, b = false;
};

// A·B of matrices in f32, either one transposed first. With `value` the product itself is computed by that, and only
// its gradient from rounded factors.
Tensor rounded_product(const Tensor& a, const Tensor& b, Transposed transposed = {},
                       const std::function<Tensor()>& value = {});

// A·B in f32 of matrices that are bf16 already: nothing is rounded. Has no gradient.
Tensor product_of_bf16(const Tensor& a, const Tensor& b);

}  // namespace ebb
