// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "ebb/tensor.h"

// Products of matrices inside losses of bf16, where the processor has instructions for products of bf16. A loss is
// computed in f32; these products round their factors to bf16 and keep sums and results f32, in the gradient too. A
// number of a factor then errs by 2^-9 of itself, which is what the numbers the loss was given were rounded by. That is
// harmless as long as no difference of such a product and something nearly equal is taken afterwards: a loss that wants
// a few elements of a product takes them from the product, so that their gradient is subtracted before it is rounded.
namespace ebb {

// Whether a loss of this dtype does so on this device, for products of [m, k] and [k, n]. Else it multiplies as it
// computes: small products are not worth the steps that scaling and rounding take.
bool rounds_factors(DType loss, Device device, std::int64_t m, std::int64_t n, std::int64_t k);

struct Transposed {
  bool a = false, b = false;
};

// A·B of matrices in f32, either one transposed first. With `value` the product itself is made by that, and only its
// gradient is made of rounded factors.
Tensor rounded_product(const Tensor& a, const Tensor& b, Transposed transposed = {},
                       const std::function<Tensor()>& value = {});

// A·B in f32 of matrices that are bf16 as they are: nothing is rounded. It has no gradient.
Tensor product_of_bf16(const Tensor& a, const Tensor& b);

}  // namespace ebb
