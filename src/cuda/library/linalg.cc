// SPDX-License-Identifier: MIT
// Factorisations and solves, a block per matrix, in the type they are computed in (halves: f32). Sums are taken column
// by column in order, so that they depend neither on the batch nor on how many threads share a column.
#include <utility>

#include "backend/matrix_errors.h"
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// The last two dimensions, and how many matrices there are.
struct Matrices {
  View first;  // the first element of each
  std::int64_t count, rows, columns, row_step, column_step;
  explicit Matrices(const View& v) : first(v) {
    const int rank = v.shape.rank();
    rows = v.shape[rank - 2];
    columns = v.shape[rank - 1];
    row_step = v.strides[rank - 2];
    column_step = v.strides[rank - 1];
    first.shape = v.shape.with(rank - 2, 1).with(rank - 1, 1);
    count = first.shape.numel();
  }
};

void require_floats(const LibraryCall& call) {
  if (!is_floating(call.inputs[0].dtype)) throw not_floating(label_of(call), call.inputs[0].dtype);
}

// `out` itself, or memory of the type that its elements are computed in.
View computed(const Gpu& gpu, const View& out, BufferPtr& keep, const LibraryCall& call) {
  return is_half(out.dtype) ? dense(out, DType::f32, keep, gpu, label_of(call)) : out;
}

// For a kernel that complains of a matrix: its number, and which column shows it.
using Complaint = Error (*)(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t column);
Complaints check_matrix(RunMark& mark, const LibraryCall& call, Complaint complaint) {
  const std::uint64_t step = mark.add_step([label = std::string(label_of(call)), shape = call.inputs[0].shape,
                                            complaint](int, std::int64_t matrix, std::uint64_t bits) {
    return complaint(label.c_str(), shape, matrix, static_cast<std::int64_t>(bits));
  });
  return {mark.slot(), static_cast<i64>(step)};
}

struct Factors {
  View upper;  // n x (n + k) for each matrix
  BufferPtr keep[3];
};
// Factors a, and gives L⁻¹·P·b where there is a b; `determinant` or its logarithm where that is wanted, which a pivot
// of zero does not keep from being one.
Factors factor(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View* b, void* determinant) {
  const View& a = call.inputs[0];
  const Matrices m(a), right(b ? *b : a);
  const std::int64_t n = m.rows, k = b ? right.columns : 0;
  const DType compute = compute_dtype(a.dtype);
  Factors f;
  f.upper = workspace(gpu, compute, {m.count, n, n + k}, f.keep[0], label_of(call));
  const View lower = workspace(gpu, compute, {m.count, n, n}, f.keep[1], label_of(call));
  const View order = workspace(gpu, DType::i64, {m.count, n}, f.keep[2], label_of(call));
  launch_blocks(gpu, {element_text(a.dtype) + texts::factor}, "factor", m.count,
                FactorArgs<void, void>{.a = kernel_view(m.first),
                                       .b = kernel_view(right.first),
                                       .n = n,
                                       .k = k,
                                       .a_row = m.row_step,
                                       .a_column = m.column_step,
                                       .b_row = right.row_step,
                                       .b_column = right.column_step,
                                       .lower = lower.data,
                                       .upper = f.upper.data,
                                       .order = elements<i64>(order),
                                       .determinant = determinant,
                                       .logarithm = call.op == Op::logdet,
                                       .needs_inverse = b != nullptr,
                                       .complaints = check_matrix(mark, call, singular)});
  return f;
}

void substitute(Gpu& gpu, const View& a, const View& b, const View& x, bool transposed, bool upward, bool unit) {
  Matrices m(a);
  const Matrices right(b);
  if (transposed) std::swap(m.row_step, m.column_step);
  const std::int64_t tiles = (right.columns + kSubstituteColumns - 1) / kSubstituteColumns;
  launch_blocks(gpu, {element_text(a.dtype) + texts::substitute}, "substitute", m.count * tiles,
                SubstituteArgs<void>{.a = kernel_view(m.first),
                                     .b = kernel_view(right.first),
                                     .n = right.rows,
                                     .k = right.columns,
                                     .a_row = m.row_step,
                                     .a_column = m.column_step,
                                     .b_row = right.row_step,
                                     .b_column = right.column_step,
                                     .upward = upward,
                                     .unit = unit,
                                     .tiles = tiles,
                                     .x = x.data});
}

}  // namespace

void run_cholesky(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View &a = call.inputs[0], &out = call.outputs[0];
  if (a.shape.numel() == 0) return;
  const Matrices m(a);
  BufferPtr keep;
  const View work = dense(out, compute_dtype(a.dtype), keep, gpu, label_of(call));
  launch_blocks(gpu, {element_text(a.dtype) + texts::cholesky}, "cholesky", m.count,
                CholeskyArgs<void, void>{.a = kernel_view(m.first),
                                         .n = m.rows,
                                         .row = m.row_step,
                                         .column = m.column_step,
                                         .work = work.data,
                                         .out = out.data,
                                         .complaints = check_matrix(mark, call, not_positive_definite)});
}

void run_triangular_solve(const LibraryCall& call, Gpu& gpu) {
  require_floats(call);
  const View& out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  const bool upper = call.attrs.i[0], transposed = call.attrs.i[1], unit = call.attrs.i[2];
  BufferPtr keep;
  const View x = computed(gpu, out, keep, call);
  substitute(gpu, call.inputs[0], call.inputs[1], x, transposed, upper != transposed, unit);
  if (x.data != out.data) convert_elements(gpu, out, x);
}

void run_solve(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View &a = call.inputs[0], &out = call.outputs[0];
  if (a.shape.numel() == 0) return;
  const Factors f = factor(call, gpu, mark, &call.inputs[1], nullptr);
  if (out.shape.numel() == 0) return;
  const std::int64_t n = f.upper.shape[1], k = f.upper.shape[2] - n;
  BufferPtr keep;
  const View x = computed(gpu, out, keep, call);
  substitute(gpu, part_of(f.upper, 2, 0, n), part_of(f.upper, 2, n, k), x, false, true, false);
  if (x.data != out.data) convert_elements(gpu, out, x);
}

// det, and logdet: NaN for a negative determinant, -inf for 0.
void run_determinant(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  if (call.outputs[0].shape.numel() > 0) factor(call, gpu, mark, nullptr, call.outputs[0].data);
}

}  // namespace ebb::cuda
