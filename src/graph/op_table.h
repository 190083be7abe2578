// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>

namespace ebb {

// The classes of operations: how they are computed.
//   leaf        nothing to compute: data, a constant, an index ramp, random bits
//   view        another view of the same memory
//   elementwise one tile kernel, fused into sweeps
//   reduce      over the axes in attrs, fused into sweeps
//   row         uses an index of its row (pick, place), fused into sweeps
//   library     a call on whole tensors; a device has a function for each of them
//   alias       the value of inputs[0]; the node exists for its gradient rule or its place in the order.
//               Formulas made of other operations (gelu, softmax, every loss) are aliases of their result;
//               `formula` is one whose nodes may be made later (graph/formula.h)
#define EBB_OP_CLASSES(X) X(leaf) X(view) X(elementwise) X(reduce) X(row) X(library) X(alias)

// The only list of operations, and everything that is known about one without computing it. A row names its class and
// has the columns of that class, so that an operation with a missing column does not compile:
//   LEAF(name)   VIEW, ALIAS(name, inputs, grad)   REDUCE(name, grad)   ROW, LIBRARY(name, inputs, grad, axis)
//   ELEMENTWISE(name, inputs, grad, domain, cost, halves, order)
//
//   inputs   how many; -1: any number
//   grad     yes: has a rule in autograd/rules; none: not differentiable (its result carries no gradient);
//            zero: differentiable with gradient 0 (floor, sign, ...)
//   domain   real: floats, integers are cast first; number: integers too; truth: bools; bits: integers;
//            any: every dtype; inner: floats, in formulas alone: no function of the library has this name
//   cost     instructions per element of f32 on a GPU, estimated; and with the quick functions that results of 16 bits
//            are precise enough for. From 8 on a value is costly on all devices: kept rather than recomputed
//   halves   exact: from f16 and bf16 it gives f16 and bf16 without rounding
//   order    either: the order of the two inputs changes no bit
//   axis     along: works along attrs.i[0] and leaves the other axes alone
//
// To use the table, pass one macro per class; EBB_SKIP_OP drops the rows of a class.
// clang-format off
#define EBB_OPS(LEAF, VIEW, ELEMENTWISE, REDUCE, ROW, LIBRARY, ALIAS)                                                 \
  /* data, a constant, an index ramp, random bits */                                                                  \
  LEAF(data) LEAF(constant) LEAF(iota) LEAF(random_uniform)                                                           \
  /* order and history */                                                                                             \
  ALIAS(variable, 1, none) ALIAS(track, 1, yes) ALIAS(stop_gradient, 1, none) ALIAS(depend, 2, yes)                   \
  ALIAS(custom, -1, yes) ALIAS(formula, -1, none)                                                                     \
  VIEW(reshape, 1, yes) VIEW(permute, 1, yes) VIEW(expand, 1, yes) VIEW(narrow, 1, yes) VIEW(output, 1, yes)          \
  /* the same numbers on the device of attrs.i: plans end there, each is for one device */                            \
  VIEW(to_device, 1, yes)                                                                                             \
  /* one input */                                                                                                     \
  ELEMENTWISE(cast,         1, yes,  any,    (1, 1),   rounds, fixed)                                                 \
  ELEMENTWISE(copy,         1, yes,  any,    (0, 0),   exact,  fixed)                                                 \
  ELEMENTWISE(neg,          1, yes,  number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(reciprocal,   1, yes,  real,   (9, 1),   rounds, fixed)                                                 \
  ELEMENTWISE(square,       1, yes,  number, (1, 1),   rounds, fixed)                                                 \
  ELEMENTWISE(abs,          1, yes,  number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(sign,         1, zero, number, (4, 4),   exact,  fixed)                                                 \
  ELEMENTWISE(exp,          1, yes,  real,   (8, 2),   rounds, fixed)                                                 \
  ELEMENTWISE(exp2,         1, yes,  real,   (8, 2),   rounds, fixed)                                                 \
  ELEMENTWISE(expm1,        1, yes,  real,   (22, 9),  rounds, fixed)                                                 \
  ELEMENTWISE(log,          1, yes,  real,   (18, 8),  rounds, fixed)                                                 \
  ELEMENTWISE(log2,         1, yes,  real,   (18, 8),  rounds, fixed)                                                 \
  ELEMENTWISE(log10,        1, yes,  real,   (18, 8),  rounds, fixed)                                                 \
  ELEMENTWISE(log1p,        1, yes,  real,   (22, 9),  rounds, fixed)                                                 \
  /* log(1 + x) of x in [0, 1], as e^-|z| is, by a third of the instructions of log1p; other x never come */          \
  ELEMENTWISE(log1p_unit,   1, yes,  inner,  (22, 9),  rounds, fixed)                                                 \
  ELEMENTWISE(sqrt,         1, yes,  real,   (10, 3),  rounds, fixed)                                                 \
  ELEMENTWISE(rsqrt,        1, yes,  real,   (10, 3),  rounds, fixed)                                                 \
  ELEMENTWISE(cbrt,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(sin,          1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(cos,          1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(tan,          1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(asin,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(acos,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(atan,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(sinh,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(cosh,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(tanh,         1, yes,  real,   (22, 9),  rounds, fixed)                                                 \
  ELEMENTWISE(asinh,        1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(acosh,        1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(atanh,        1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(erf,          1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(erfc,         1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(erfcx,        1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(lgamma,       1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(digamma,      1, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(floor,        1, zero, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(ceil,         1, zero, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(round,        1, zero, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(trunc,        1, zero, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(isnan,        1, none, real,   (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(isinf,        1, none, real,   (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(isfinite,     1, none, real,   (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(logical_not,  1, none, truth,  (1, 1),   exact,  fixed)                                                 \
  /* two inputs of one dtype */                                                                                       \
  ELEMENTWISE(add,          2, yes,  number, (1, 1),   rounds, either)                                                \
  ELEMENTWISE(sub,          2, yes,  number, (1, 1),   rounds, fixed)                                                 \
  ELEMENTWISE(mul,          2, yes,  number, (1, 1),   rounds, either)                                                \
  ELEMENTWISE(div,          2, yes,  real,   (10, 3),  rounds, fixed)                                                 \
  ELEMENTWISE(pow,          2, yes,  number, (60, 16), rounds, fixed)                                                 \
  ELEMENTWISE(floor_divide, 2, zero, number, (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(remainder,    2, yes,  number, (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(maximum,      2, yes,  number, (1, 1),   exact,  either)                                                \
  ELEMENTWISE(minimum,      2, yes,  number, (1, 1),   exact,  either)                                                \
  ELEMENTWISE(atan2,        2, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(hypot,        2, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(polygamma,    2, yes,  real,   (30, 30), rounds, fixed)                                                 \
  ELEMENTWISE(eq,           2, none, number, (1, 1),   exact,  either)                                                \
  ELEMENTWISE(ne,           2, none, number, (1, 1),   exact,  either)                                                \
  ELEMENTWISE(lt,           2, none, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(le,           2, none, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(gt,           2, none, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(ge,           2, none, number, (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(logical_and,  2, none, truth,  (1, 1),   exact,  either)                                                \
  ELEMENTWISE(logical_or,   2, none, truth,  (1, 1),   exact,  either)                                                \
  ELEMENTWISE(logical_xor,  2, none, truth,  (1, 1),   exact,  either)                                                \
  /* integers, bit by bit; a shift by as many places as there are bits, or by fewer than none, moves all of them out */\
  ELEMENTWISE(bitwise_and,  2, none, bits,   (1, 1),   exact,  either)                                                \
  ELEMENTWISE(bitwise_or,   2, none, bits,   (1, 1),   exact,  either)                                                \
  ELEMENTWISE(bitwise_xor,  2, none, bits,   (1, 1),   exact,  either)                                                \
  ELEMENTWISE(bitwise_left_shift, 2, none, bits, (3, 3), exact, fixed)                                                \
  ELEMENTWISE(bitwise_right_shift, 2, none, bits, (3, 3), exact, fixed)                                               \
  /* check(x, ok): x; where ok is false an Error with the node's label, the position and the value of x */            \
  ELEMENTWISE(check,        2, yes,  any,    (0, 0),   exact,  fixed)                                                 \
  /* where(mask, a, b); fma(x, m, a) = x·m + a rounded once */                                                        \
  ELEMENTWISE(where,        3, yes,  any,    (1, 1),   exact,  fixed)                                                 \
  ELEMENTWISE(fma,          3, yes,  number, (1, 1),   rounds, fixed)                                                 \
  /* over the axes of attrs.axes, which stay with size 1 */                                                           \
  REDUCE(sum, yes) REDUCE(prod, yes) REDUCE(max, yes) REDUCE(min, yes)                                                \
  /* pick(x, index): x at index along one axis (index has size 1 there); place(g, index): zeros but g at index */     \
  ROW(pick, 2, yes, along) ROW(place, 2, yes, along)                                                                  \
  LIBRARY(matmul, 2, yes, whole) LIBRARY(gather, 2, yes, along) LIBRARY(scatter_zero_add, 2, yes, along)              \
  LIBRARY(scatter, 3, yes, along) LIBRARY(index_select, 2, yes, along) LIBRARY(index_zero_add, 2, yes, along)         \
  LIBRARY(cat, -1, yes, along) LIBRARY(pad_zero, 1, yes, along) LIBRARY(argmax, 1, none, along)                       \
  LIBRARY(argmin, 1, none, along) LIBRARY(argsort, 1, none, along) LIBRARY(cumsum, 1, yes, along)                     \
  /* how many elements of a sorted line come before each value of another */                                          \
  LIBRARY(searchsorted, 2, none, along)                                                                               \
  /* the place of the largest or least element so far along an axis: of equal ones the last, and NaN is both */       \
  LIBRARY(cummax_place, 1, none, along) LIBRARY(cummin_place, 1, none, along)                                         \
  /* s[i] = g[i] + x[i+1]·s[i+1] along an axis, from g and x */                                                       \
  LIBRARY(linear_recurrence, 2, yes, along)                                                                           \
  LIBRARY(cumprod, 1, yes, along) LIBRARY(cholesky, 1, yes, whole) LIBRARY(triangular_solve, 2, yes, whole)           \
  LIBRARY(solve, 2, yes, whole) LIBRARY(det, 1, yes, whole) LIBRARY(logdet, 1, yes, whole)                            \
  LIBRARY(convolution, -1, yes, whole) LIBRARY(conv_transpose, 2, yes, whole)                                         \
  LIBRARY(conv_weight_gradient, 2, yes, whole) LIBRARY(max_pool_index, 1, none, whole)                                \
  /* sums of windows of images, and for every element the sum over the windows that cover it */                       \
  LIBRARY(window_sum, 1, yes, whole) LIBRARY(window_spread, 1, yes, whole)                                            \
  /* Σ weight·x[index], and the other two derivatives of Σ y·weight·x[index]: see ops/index_nodes.h */                \
  LIBRARY(weighted_gather, 3, yes, whole) LIBRARY(weighted_scatter, 3, yes, whole) LIBRARY(gather_dot, 3, yes, whole) \
  /* images at points between their elements, and the two derivatives: see calls/grid_sample.h */                     \
  LIBRARY(grid_sample, 2, yes, whole) LIBRARY(grid_sample_image_gradient, 2, yes, whole)                              \
  LIBRARY(grid_sample_grid_gradient, 3, yes, whole)                                                                   \
  /* distances of rows, and the gradient to the rows of the first input: see calls/distances.h */                     \
  LIBRARY(distances, -1, yes, whole) LIBRARY(distances_gradient, -1, yes, whole)                                      \
  /* attention gives values and the logarithms of its sums, attention_gradient the gradients to q, k and v */         \
  LIBRARY(attention, -1, none, whole) LIBRARY(attention_gradient, -1, none, whole)                                    \
  /* losses with kernels of their own: they give values and gradients, and the losses around them carry the rules */  \
  LIBRARY(linear_cross_entropy, -1, none, whole) LIBRARY(ctc, -1, none, whole) LIBRARY(transducer, -1, none, whole)   \
  /* the number t with Σ max(0, x − t) = 1 along an axis, which stays with size 1; f32 or f64 */                      \
  LIBRARY(sparsemax_threshold, 1, none, along)                                                                        \
  /* the hinges of multilabel_margin_loss: from x and lists of classes (i64, i32) the sum of each row, and with */    \
  /* cotangents of the sums as a third input also the gradient to x */                                                \
  LIBRARY(multilabel_hinges, -1, none, whole)                                                                         \
  /* ranks of a distributed program exchange elements: inputs are what this rank gives and, to keep the order, the */ \
  /* collective before it. What is exchanged is in the call's data, and the functions around it carry the rules */    \
  LIBRARY(collective, -1, none, whole)                                                                                \
  /* formulas with a rule of their own */                                                                             \
  ALIAS(clamp, -1, yes) ALIAS(logit, -1, yes) ALIAS(sigmoid, -1, yes) ALIAS(log_sigmoid, -1, yes)                     \
  ALIAS(softplus, -1, yes) ALIAS(relu, -1, yes) ALIAS(leaky_relu, -1, yes) ALIAS(prelu, -1, yes)                      \
  ALIAS(relu6, -1, yes) ALIAS(elu, -1, yes) ALIAS(selu, -1, yes) ALIAS(celu, -1, yes) ALIAS(gelu, -1, yes)            \
  ALIAS(silu, -1, yes) ALIAS(mish, -1, yes) ALIAS(softsign, -1, yes) ALIAS(hardtanh, -1, yes)                         \
  ALIAS(hardsigmoid, -1, yes) ALIAS(hardswish, -1, yes) ALIAS(hardshrink, -1, yes) ALIAS(softshrink, -1, yes)         \
  ALIAS(tanhshrink, -1, yes) ALIAS(threshold, -1, yes) ALIAS(softmax, -1, yes) ALIAS(log_softmax, -1, yes)            \
  ALIAS(logsumexp, -1, yes) ALIAS(layer_norm, -1, yes) ALIAS(rms_norm, -1, yes) ALIAS(xlogy, -1, yes)
// clang-format on
#define EBB_SKIP_OP(...)

enum class OpClass : std::uint8_t {
#define EBB_ENUM(name) name,
  EBB_OP_CLASSES(EBB_ENUM)
#undef EBB_ENUM
};
enum class OpGrad : std::uint8_t { yes, none, zero };
enum class OpDomain : std::uint8_t { any, real, number, truth, bits, inner };

enum class Op : std::uint16_t {
#define EBB_ENUM(name, ...) name,
  EBB_OPS(EBB_ENUM, EBB_ENUM, EBB_ENUM, EBB_ENUM, EBB_ENUM, EBB_ENUM, EBB_ENUM)
#undef EBB_ENUM
};

struct OpCost {
  double instructions = 0, quick = 0;
  constexpr bool is_costly() const { return instructions >= 8; }
};

struct OpInfo {
  std::string_view name;
  OpClass cls;
  int arity;
  OpGrad grad;
  bool along_axis = false;
  OpDomain domain = OpDomain::any;
  OpCost cost = {1, 1};
  bool costly = false;
  bool exact_in_halves = false;
  bool commutes = false;
};

namespace op_columns {  // the words of the table
inline constexpr bool whole = false, along = true;
constexpr OpCost costs(double instructions, double quick) { return {instructions, quick}; }
inline constexpr bool rounds = false, exact = true;
inline constexpr bool fixed = false, either = true;
}  // namespace op_columns

// clang-format off
inline constexpr OpInfo kOpTable[] = {
#define EBB_LEAF(name) {#name, OpClass::leaf, 0, OpGrad::none},
#define EBB_VIEW(name, inputs, grad) {#name, OpClass::view, inputs, OpGrad::grad},
#define EBB_ELEMENTWISE(name, inputs, grad, domain, cost, halves, order) \
  {#name, OpClass::elementwise, inputs, OpGrad::grad, false, OpDomain::domain, \
   op_columns::costs cost, op_columns::costs cost.is_costly(), op_columns::halves, op_columns::order},
#define EBB_REDUCE(name, grad) {#name, OpClass::reduce, 1, OpGrad::grad},
#define EBB_ROW(name, inputs, grad, axis) {#name, OpClass::row, inputs, OpGrad::grad, op_columns::axis},
#define EBB_LIBRARY(name, inputs, grad, axis) {#name, OpClass::library, inputs, OpGrad::grad, op_columns::axis},
#define EBB_ALIAS(name, inputs, grad) {#name, OpClass::alias, inputs, OpGrad::grad},
    EBB_OPS(EBB_LEAF, EBB_VIEW, EBB_ELEMENTWISE, EBB_REDUCE, EBB_ROW, EBB_LIBRARY, EBB_ALIAS)
#undef EBB_LEAF
#undef EBB_VIEW
#undef EBB_ELEMENTWISE
#undef EBB_REDUCE
#undef EBB_ROW
#undef EBB_LIBRARY
#undef EBB_ALIAS
};
// clang-format on
inline constexpr int kOpCount = sizeof(kOpTable) / sizeof(kOpTable[0]);

constexpr const OpInfo& info(Op op) { return kOpTable[static_cast<int>(op)]; }

constexpr std::string_view name(OpClass cls) {
  constexpr std::string_view names[] = {
#define EBB_NAME(name) #name,
      EBB_OP_CLASSES(EBB_NAME)
#undef EBB_NAME
  };
  return names[static_cast<int>(cls)];
}
constexpr std::string_view name(OpGrad grad) {
  return grad == OpGrad::yes ? "yes" : grad == OpGrad::none ? "none" : "zero";
}

}  // namespace ebb
