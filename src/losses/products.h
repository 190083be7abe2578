#pragma once
#include "ebb/tensor.h"

namespace ebb {

// A·B of matrices in f32 or f64 inside a loss, either factor transposed first.
//
// Where the loss is of bf16 (`of_bf16`) and the processor has instructions for products of bf16, the factors are
// rounded to bf16 and multiplied by them, in the gradient too; sums stay f32, and so does the result. A number of a
// factor then errs by 2^-9 of itself, which is what the numbers the loss was given were rounded by. That is harmless as
// long as no difference of a product and something nearly equal is taken afterwards: a loss that wants a few elements
// of a product takes them from the product, so that their gradient is subtracted before it is rounded.
struct Transposed {
  bool a = false, b = false;
};
Tensor loss_product(const Tensor& a, const Tensor& b, bool of_bf16, Transposed transposed = {});

}  // namespace ebb
