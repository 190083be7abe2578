#pragma once
#include <cstdint>
#include <string_view>

namespace ebb {

// The only list of operations. A row: name, class, number of inputs (-1: any), differentiability.
//   class       how it is computed
//     leaf        nothing to compute: data, a constant, an index ramp, random bits
//     view        another way to look at the same memory
//     elementwise one tile kernel, fused into sweeps
//     reduce      over the axes in attrs, fused into sweeps
//     row         uses an index of its row (pick, place), fused into sweeps
//     library     a call on whole tensors
//     alias       the value of inputs[0]; the node is there for its gradient rule or its place in the order.
//                 Formulas made of other operations (gelu, softmax, every loss) are aliases of their result.
//   grad        yes: has a rule in autograd/rules; none: not differentiable (its result carries no gradient);
//               zero: differentiable with gradient 0 (floor, sign, ...)
#define EBB_OPS(X) \
  /* leaves */     \
  X(data, leaf, 0, none) X(constant, leaf, 0, none) X(iota, leaf, 0, none) X(random_uniform, leaf, 0, none)            \
  /* order and history */                                                                                              \
  X(variable, alias, 1, none) X(track, alias, 1, yes) X(stop_gradient, alias, 1, none) X(depend, alias, 2, yes)        \
  X(custom, alias, -1, yes)                                                                                            \
  /* views */                                                                                                          \
  X(reshape, view, 1, yes) X(permute, view, 1, yes) X(expand, view, 1, yes) X(narrow, view, 1, yes)                    \
  X(output, view, 1, yes)                                                                                              \
  /* elementwise, one input */                                                                                         \
  X(cast, elementwise, 1, yes) X(copy, elementwise, 1, yes)                                                            \
  X(neg, elementwise, 1, yes) X(reciprocal, elementwise, 1, yes) X(square, elementwise, 1, yes)                        \
  X(abs, elementwise, 1, yes) X(sign, elementwise, 1, zero)                                                            \
  X(exp, elementwise, 1, yes) X(exp2, elementwise, 1, yes) X(expm1, elementwise, 1, yes) X(log, elementwise, 1, yes)   \
  X(log2, elementwise, 1, yes) X(log10, elementwise, 1, yes) X(log1p, elementwise, 1, yes)                             \
  X(sqrt, elementwise, 1, yes) X(rsqrt, elementwise, 1, yes) X(cbrt, elementwise, 1, yes)                              \
  X(sin, elementwise, 1, yes) X(cos, elementwise, 1, yes) X(tan, elementwise, 1, yes)                                  \
  X(asin, elementwise, 1, yes) X(acos, elementwise, 1, yes) X(atan, elementwise, 1, yes)                               \
  X(sinh, elementwise, 1, yes) X(cosh, elementwise, 1, yes) X(tanh, elementwise, 1, yes)                               \
  X(asinh, elementwise, 1, yes) X(acosh, elementwise, 1, yes) X(atanh, elementwise, 1, yes)                            \
  X(erf, elementwise, 1, yes) X(erfc, elementwise, 1, yes) X(lgamma, elementwise, 1, yes)                              \
  X(digamma, elementwise, 1, yes)                                                                                      \
  X(floor, elementwise, 1, zero) X(ceil, elementwise, 1, zero) X(round, elementwise, 1, zero)                          \
  X(trunc, elementwise, 1, zero)                                                                                       \
  X(isnan, elementwise, 1, none) X(isinf, elementwise, 1, none) X(isfinite, elementwise, 1, none)                      \
  X(logical_not, elementwise, 1, none)                                                                                 \
  /* elementwise, two inputs of one dtype */                                                                           \
  X(add, elementwise, 2, yes) X(sub, elementwise, 2, yes) X(mul, elementwise, 2, yes) X(div, elementwise, 2, yes)      \
  X(pow, elementwise, 2, yes) X(floor_divide, elementwise, 2, zero) X(remainder, elementwise, 2, yes)                  \
  X(maximum, elementwise, 2, yes) X(minimum, elementwise, 2, yes)                                                      \
  X(atan2, elementwise, 2, yes) X(hypot, elementwise, 2, yes) X(polygamma, elementwise, 2, yes)                        \
  X(eq, elementwise, 2, none) X(ne, elementwise, 2, none) X(lt, elementwise, 2, none) X(le, elementwise, 2, none)      \
  X(gt, elementwise, 2, none) X(ge, elementwise, 2, none)                                                              \
  X(logical_and, elementwise, 2, none) X(logical_or, elementwise, 2, none) X(logical_xor, elementwise, 2, none)        \
  /* check(x, ok): x; where ok is false an Error with the node's label, the position and the value of x */             \
  X(check, elementwise, 2, yes)                                                                                        \
  /* elementwise, three inputs: where(mask, a, b); fma(x, m, a) = x·m + a rounded once */                              \
  X(where, elementwise, 3, yes) X(fma, elementwise, 3, yes)                                                            \
  /* reductions over the axes of attrs.axes, which stay with size 1 */                                                 \
  X(sum, reduce, 1, yes) X(prod, reduce, 1, yes) X(max, reduce, 1, yes) X(min, reduce, 1, yes)                         \
  /* pick(x, index): x at index along one axis (index has size 1 there); place(g, index): zeros but g at index */      \
  X(pick, row, 2, yes) X(place, row, 2, yes)                                                                           \
  /* library calls */                                                                                                  \
  X(matmul, library, 2, yes) X(gather, library, 2, yes) X(scatter_zero_add, library, 2, yes)                           \
  X(scatter, library, 3, yes) X(index_select, library, 2, yes) X(index_zero_add, library, 2, yes)                      \
  X(cat, library, -1, yes) X(pad_zero, library, 1, yes)                                                                \
  /* the same numbers on the device of attrs.i: plans end there, since each is for one device */                       \
  X(to_device, library, 1, yes)                                                                                        \
  X(argmax, library, 1, none) X(argmin, library, 1, none) X(argsort, library, 1, none)                                 \
  X(cumsum, library, 1, yes) X(cumprod, library, 1, yes)                                                               \
  X(cholesky, library, 1, yes) X(triangular_solve, library, 2, yes) X(solve, library, 2, yes)                          \
  X(det, library, 1, yes) X(logdet, library, 1, yes)                                                                   \
  X(convolution, library, -1, yes) X(conv_transpose, library, 2, yes) X(conv_weight_gradient, library, 2, yes)         \
  X(max_pool_index, library, 1, none)                                                                                  \
  /* attention gives values and the logarithms of its sums, attention_gradient the gradients to q, k and v */          \
  X(attention, library, -1, none) X(attention_gradient, library, -1, none)                                             \
  /* losses with kernels of their own: they give values and gradients, and the losses around them carry the rules */   \
  X(linear_cross_entropy, library, -1, none) X(ctc, library, -1, none) X(transducer, library, -1, none)                \
  /* the number t with Σ max(0, x − t) = 1 along an axis, which stays with size 1; f32 or f64 */                       \
  X(sparsemax_threshold, library, 1, none)                                                                             \
  /* the hinges of multilabel_margin_loss: from x and lists of classes (i64, i32) the sum of each row, and with */     \
  /* cotangents of the sums as a third input also the gradient to x */                                                 \
  X(multilabel_hinges, library, -1, none)                                                                              \
  /* formulas with a rule of their own */                                                                              \
  X(clamp, alias, -1, yes) X(logit, alias, -1, yes) X(sigmoid, alias, -1, yes) X(log_sigmoid, alias, -1, yes)          \
  X(softplus, alias, -1, yes) X(relu, alias, -1, yes) X(leaky_relu, alias, -1, yes) X(prelu, alias, -1, yes)           \
  X(relu6, alias, -1, yes) X(elu, alias, -1, yes) X(selu, alias, -1, yes) X(celu, alias, -1, yes)                      \
  X(gelu, alias, -1, yes) X(silu, alias, -1, yes) X(mish, alias, -1, yes) X(softsign, alias, -1, yes)                  \
  X(hardtanh, alias, -1, yes) X(hardsigmoid, alias, -1, yes) X(hardswish, alias, -1, yes)                              \
  X(hardshrink, alias, -1, yes) X(softshrink, alias, -1, yes) X(tanhshrink, alias, -1, yes)                            \
  X(threshold, alias, -1, yes) X(softmax, alias, -1, yes) X(log_softmax, alias, -1, yes)                               \
  X(logsumexp, alias, -1, yes) X(layer_norm, alias, -1, yes) X(rms_norm, alias, -1, yes)                               \
  X(xlogy, alias, -1, yes)

enum class Op : std::uint16_t {
#define EBB_ENUM(name, cls, arity, grad) name,
  EBB_OPS(EBB_ENUM)
#undef EBB_ENUM
};

enum class OpClass : std::uint8_t { leaf, view, elementwise, reduce, row, library, alias };
enum class OpGrad : std::uint8_t { yes, none, zero };

struct OpInfo {
  std::string_view name;
  OpClass cls;
  int arity;
  OpGrad grad;
};

inline constexpr OpInfo kOpTable[] = {
#define EBB_ROW(name, cls, arity, grad) {#name, OpClass::cls, arity, OpGrad::grad},
    EBB_OPS(EBB_ROW)
#undef EBB_ROW
};
inline constexpr int kOpCount = sizeof(kOpTable) / sizeof(kOpTable[0]);

constexpr const OpInfo& info(Op op) { return kOpTable[static_cast<int>(op)]; }

}  // namespace ebb
