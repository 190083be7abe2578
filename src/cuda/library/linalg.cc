// SPDX-License-Identifier: MIT
// Factorisations and solves, a block per matrix, in the compute type (halves: f32). Products are taken from an element
// in the order of rows, so that its bits depend on the size of the matrix alone. Large matrices go to cuSOLVER and
// cuBLAS if available, all at a time or, if they are larger, one after the other: that size alone decides, too.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "backend/matrix_errors.h"
#include "calls/triangular_solve.h"
#include "core/ceil_div.h"
#include "core/format_error.h"
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "cuda/library/solver.h"

namespace ebb::cuda {
namespace {

// The last two dimensions, and the number of matrices.
struct MatrixBatch {
  View first;  // the first element of each
  std::int64_t count, rows, columns, row_step, column_step;
  explicit MatrixBatch(const View& v) : first(v) {
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

// `out` itself, or memory of its compute type.
View computed(const Gpu& gpu, const View& out, BufferPtr& keep, const LibraryCall& call) {
  return is_half(out.dtype) ? dense(out, DType::f32, keep, gpu, label_of(call)) : out;
}

// For a kernel that reports a matrix: its number, and the column at fault.
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
  BufferPtr keep[2];
};
// Factors a, and computes L⁻¹·P·b if there is a b; `determinant` or its logarithm, or all factors packed, if requested,
// for which a pivot of zero is not an error.
Factors factor(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View* b, void* determinant,
               void* packed = nullptr) {
  const View& a = call.inputs[0];
  const MatrixBatch m(a), right(b ? *b : a);
  const std::int64_t n = m.rows, k = b ? right.columns : 0;
  const DType compute = compute_dtype(a.dtype);
  Factors f;
  f.upper = workspace(gpu, compute, {m.count, n, n + k}, f.keep[0], label_of(call));
  const View work = workspace(gpu, compute, {m.count, n, n + k}, f.keep[1], label_of(call));
  const auto each = static_cast<std::int64_t>(size_of(compute));
  const std::int64_t tiles = kFactorTile * (2 * kPanel + 1) * each,
                     of_rows = 2 * n * static_cast<std::int64_t>(sizeof(i32)), column = (n | 1) * each,
                     room = gpu.model().limits.shared - kSharedOfText - tiles - of_rows,
                     panel = std::min<std::int64_t>(kPanel, room / column);
  require(panel > 0, "{}: matrices of {} rows need cuSOLVER, which is not available", label_of(call), n);
  launch_blocks(gpu, {element_text(a.dtype) + texts::factor, false, true}, "factor", m.count,
                FactorArgs<void, void>{.a = kernel_view(m.first),
                                       .b = kernel_view(right.first),
                                       .n = n,
                                       .k = k,
                                       .a_row = m.row_step,
                                       .a_column = m.column_step,
                                       .b_row = right.row_step,
                                       .b_column = right.column_step,
                                       .work = work.data,
                                       .upper = f.upper.data,
                                       .packed = packed,
                                       .panel = panel,
                                       .determinant = determinant,
                                       .logarithm = call.op == Op::logdet,
                                       .needs_inverse = b != nullptr,
                                       .complaints = check_matrix(mark, call, singular)},
                panel * column + tiles + of_rows);
  return f;
}

// In between, a block of our own is faster.
bool is_for_solver(const Gpu& gpu, std::int64_t n, std::int64_t many_rows) {
  const bool few = n > 0 && n <= gpu.model().few_rows, many = n >= many_rows;
  return (few || many) && n <= std::numeric_limits<int>::max();
}
// Without cuBLAS there is no call for many small ones at a time.
bool has_factors(const Gpu& gpu, const Solver& solver, std::int64_t n) {
  return solver && (solver.batch_handle() || n >= gpu.model().lu_solver_rows);
}
// Up to this size all matrices at a time, even a single one: bits do not depend on the batch.
bool is_for_batches(const Gpu& gpu, std::int64_t n) { return n <= gpu.model().batched_rows; }

// Factors by columns, with the exchanged rows and a verdict for each matrix.
struct LargeFactors {
  StoredByColumns a;
  View order, info;
  void** matrices;  // null: they were factored one after the other
  BufferPtr keep[3];
};
LargeFactors factor_large(const LibraryCall& call, Gpu& gpu, RunMark& mark, const Solver& solver, bool needs_inverse,
                          void* determinant) {
  const char* const what = label_of(call);
  LargeFactors f{stored_by_columns(gpu, call.inputs[0], what), {}, {}, nullptr, {}};
  const int n = f.a.rows;
  f.order = workspace(gpu, DType::i32, {f.a.count, n}, f.keep[0], what);
  f.info = workspace(gpu, DType::i32, {f.a.count}, f.keep[1], what);
  if (solver.batch_handle() && is_for_batches(gpu, n)) {
    f.matrices = pointers_to(gpu, f.a.view.data, f.a.count, f.a.bytes(), f.keep[2]);
    check_solver(solver.batches_of(f.a.view.dtype)
                     .getrf_batched(solver.batch_handle(), n, f.matrices, n, elements<i32>(f.order),
                                    elements<i32>(f.info), static_cast<int>(f.a.count)),
                 "cublas getrfBatched");
  } else {
    const cusolver::OfType& of = solver.of(f.a.view.dtype);
    int size = 0;
    check_solver(of.getrf_size(solver.handle(), n, n, f.a.matrix(0), n, &size), "cusolverDn getrf_bufferSize");
    const View work = workspace(gpu, f.a.view.dtype, {size}, f.keep[2], what);
    for (std::int64_t i = 0; i < f.a.count; ++i)
      check_solver(of.getrf(solver.handle(), n, n, f.a.matrix(i), n, work.data, elements<i32>(f.order) + i * n,
                            elements<i32>(f.info) + i),
                   "cusolverDn getrf");
  }
  launch_blocks(gpu, {element_text(call.inputs[0].dtype) + texts::finish_factor}, "finish_factor", f.a.count,
                FinishFactorArgs<void, void>{.factors = f.a.view.data,
                                             .order = elements<i32>(f.order),
                                             .info = elements<i32>(f.info),
                                             .determinant = determinant,
                                             .n = n,
                                             .count = f.a.count,
                                             .logarithm = call.op == Op::logdet,
                                             .needs_inverse = needs_inverse,
                                             .complaints = check_matrix(mark, call, singular)});
  return f;
}

bool factors_large(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& packed_out) {
  const std::int64_t n = packed_out.shape[packed_out.shape.rank() - 1];
  if (!is_for_solver(gpu, n, gpu.model().lu_solver_rows)) return false;
  const Solver solver(gpu);
  if (!has_factors(gpu, solver, n)) return false;
  const LargeFactors f = factor_large(call, gpu, mark, solver, false, nullptr);
  const std::int64_t slabs = ceil_div(n, kFinishRows);
  launch_blocks(gpu, {element_text(call.inputs[0].dtype) + texts::pack_factors, false, true}, "pack_factors",
                f.a.count * slabs,
                PackFactorsArgs<void>{.factors = f.a.view.data,
                                      .order = elements<i32>(f.order),
                                      .packed = packed_out.data,
                                      .n = n,
                                      .count = f.a.count,
                                      .slabs = slabs},
                (2 * n + 1) * static_cast<std::int64_t>(sizeof(i32)));
  return true;
}

bool solve_large(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const std::int64_t size = call.inputs[0].shape[call.inputs[0].shape.rank() - 1];
  if (!is_for_solver(gpu, size, gpu.model().lu_solver_rows)) return false;
  const Solver solver(gpu);
  if (!has_factors(gpu, solver, size)) return false;
  const char* const what = label_of(call);
  const View& out = call.outputs[0];
  const LargeFactors f = factor_large(call, gpu, mark, solver, true, nullptr);
  if (out.shape.numel() == 0) return true;
  const int n = f.a.rows;
  const StoredByColumns x = stored_by_columns(gpu, call.inputs[1], what);
  BufferPtr kept_pointers;
  if (f.matrices) {
    int wrong = 0;
    check_solver(solver.batches_of(x.view.dtype)
                     .getrs_batched(solver.batch_handle(), 0, n, x.columns, f.matrices, n, elements<i32>(f.order),
                                    pointers_to(gpu, x.view.data, x.count, x.bytes(), kept_pointers), n, &wrong,
                                    static_cast<int>(x.count)),
                 "cublas getrsBatched");
  }
  for (std::int64_t i = 0; i < x.count && !f.matrices; ++i)
    check_solver(solver.of(x.view.dtype)
                     .getrs(solver.handle(), 0, n, x.columns, f.a.matrix(i), n, elements<i32>(f.order) + i * n,
                            x.matrix(i), n, elements<i32>(f.info) + i),
                 "cusolverDn getrs");
  BufferPtr keep;
  const View by_rows = computed(gpu, out, keep, call);
  copy_elements(gpu, by_rows, x.view);
  if (by_rows.data != out.data) convert_elements(gpu, out, by_rows);
  return true;
}

// By columns and in the lower triangle: the upper one of 2,048 rows took 2.0 ms, PyTorch's lower one 0.8.
bool cholesky_large(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &a = call.inputs[0], &out = call.outputs[0];
  const MatrixBatch m(a);
  if (!is_for_solver(gpu, m.rows, gpu.model().solver_rows)) return false;
  const Solver solver(gpu);
  if (!solver) return false;
  const char* const what = label_of(call);
  BufferPtr keep[2];
  const StoredByColumns work = stored_by_columns(gpu, a, what);
  const DType compute = work.view.dtype;
  const View info = workspace(gpu, DType::i32, {m.count}, keep[0], what);
  const cusolver::OfType& of = solver.of(compute);
  const int n = static_cast<int>(m.rows);
  if (is_for_batches(gpu, n)) {
    check_solver(of.potrf_batched(solver.handle(), cusolver::kLower, n,
                                  pointers_to(gpu, work.view.data, m.count, work.bytes(), keep[1]), n,
                                  elements<i32>(info), static_cast<int>(m.count)),
                 "cusolverDn potrfBatched");
  } else {
    int size = 0;
    check_solver(of.potrf_size(solver.handle(), cusolver::kLower, n, work.view.data, n, &size),
                 "cusolverDn potrf_bufferSize");
    const View buffer = workspace(gpu, compute, {size}, keep[1], what);
    for (std::int64_t i = 0; i < m.count; ++i)
      check_solver(
          of.potrf(solver.handle(), cusolver::kLower, n, work.matrix(i), n, buffer.data, size, elements<i32>(info) + i),
          "cusolverDn potrf");
  }
  const std::int64_t slabs = (n + kFinishRows - 1) / kFinishRows;
  launch_blocks(gpu, {element_text(a.dtype) + texts::finish_cholesky}, "finish_cholesky", m.count * slabs,
                FinishCholeskyArgs<void, void>{.work = work.view.data,
                                               .out = out.data,
                                               .info = elements<i32>(info),
                                               .n = n,
                                               .slabs = slabs,
                                               .count = m.count,
                                               .complaints = check_matrix(mark, call, not_positive_definite)});
  return true;
}

void substitute(Gpu& gpu, const View& a, const View& b, const View& x, bool transposed, bool upward, bool unit) {
  MatrixBatch m(a);
  const MatrixBatch right(b);
  if (transposed) std::swap(m.row_step, m.column_step);
  const bool few = right.rows <= kFewRows;
  // More columns per block where there are enough blocks: each reads all of a.
  const std::int64_t narrow = ceil_div(right.columns, 8),
                     columns = narrow == 1 || m.count * narrow <= gpu.model().substituting_blocks ? 8 : 32,
                     tiles = ceil_div(right.columns, columns);
  const SubstituteArgs<void> args{.a = kernel_view(m.first),
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
                                  .x = x.data};
  const KernelSource source{element_text(a.dtype) + fmt::format("constexpr int kColumns = {};\n", columns) +
                            texts::substitute};
  if (few) return launch_elements(gpu, source, "substitute_few", m.count * right.columns, args);
  launch_blocks(gpu, source, "substitute", m.count * tiles, args);
}

}  // namespace

void run_cholesky(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View &a = call.inputs[0], &out = call.outputs[0];
  const MatrixBatch m(a);
  const bool few = m.rows <= kFewRows;
  if (a.shape.numel() == 0 || (!few && cholesky_large(call, gpu, mark))) return;
  BufferPtr keep;
  const View work = computed(gpu, out, keep, call);
  const KernelSource source{element_text(a.dtype) + texts::cholesky};
  const CholeskyArgs<void, void> args{.a = kernel_view(m.first),
                                      .n = m.rows,
                                      .row = m.row_step,
                                      .column = m.column_step,
                                      .work = work.data,
                                      .out = out.data,
                                      .complaints = check_matrix(mark, call, not_positive_definite)};
  if (few) return launch_elements(gpu, source, "cholesky_few", m.count, args);
  launch_blocks(gpu, source, "cholesky", m.count, args);
}

void run_triangular_solve(const LibraryCall& call, Gpu& gpu) {
  require_floats(call);
  const View& out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  const auto [upper, transposed, unit] = options_as<TriangularSolveCall>(call.attrs);
  BufferPtr keep;
  const View x = computed(gpu, out, keep, call);
  substitute(gpu, call.inputs[0], call.inputs[1], x, transposed, upper != transposed, unit);
  if (x.data != out.data) convert_elements(gpu, out, x);
}

void run_solve(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View &a = call.inputs[0], &out = call.outputs[0];
  if (a.shape.numel() == 0 || solve_large(call, gpu, mark)) return;
  const Factors f = factor(call, gpu, mark, &call.inputs[1], nullptr);
  if (out.shape.numel() == 0) return;
  const std::int64_t n = f.upper.shape[1], k = f.upper.shape[2] - n;
  BufferPtr keep;
  const View x = computed(gpu, out, keep, call);
  substitute(gpu, part_of(f.upper, 2, 0, n), part_of(f.upper, 2, n, k), x, false, true, false);
  if (x.data != out.data) convert_elements(gpu, out, x);
}

void run_factors(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View& out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  BufferPtr keep;
  const View packed = computed(gpu, out, keep, call);
  if (!factors_large(call, gpu, mark, packed)) factor(call, gpu, mark, nullptr, nullptr, packed.data);
  if (packed.data != out.data) convert_elements(gpu, out, packed);
}

// det, and logdet: NaN for a negative determinant, -inf for 0.
void run_determinant(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  if (call.outputs[0].shape.numel() == 0) return;
  const std::int64_t size = call.inputs[0].shape[call.inputs[0].shape.rank() - 1];
  if (is_for_solver(gpu, size, gpu.model().lu_solver_rows)) {
    if (const Solver solver(gpu); has_factors(gpu, solver, size)) {
      factor_large(call, gpu, mark, solver, false, call.outputs[0].data);
      return;
    }
  }
  factor(call, gpu, mark, nullptr, call.outputs[0].data);
}

}  // namespace ebb::cuda
