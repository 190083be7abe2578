// Factorisations and solves, a block per matrix, in the type they are computed in (halves: f32). Sums are taken column
// by column in order, so that they depend neither on the batch nor on how many threads share a column.
#include <utility>

#include "backend/matrix_errors.h"
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

// The words "error, step" of a kernel that complains of a matrix: its number, and which column shows it.
using Complaint = Error (*)(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t column);
void add_matrix_check(Words& words, RunMark& mark, const LibraryCall& call, Complaint complaint) {
  const std::uint64_t step = mark.add_step([label = std::string(label_of(call)), shape = call.inputs[0].shape,
                                            complaint](int, std::int64_t matrix, std::uint64_t bits) {
    return complaint(label.c_str(), shape, matrix, static_cast<std::int64_t>(bits));
  });
  words.add(static_cast<const void*>(mark.slot())).add(static_cast<std::int64_t>(step));
}

// P·a = L·U by columns with partial pivoting: column j of L, then row j of U. Rows stay where they are and `order`
// says which of them has which place. L is stored by columns and U by rows, beside it L⁻¹·P·b: neighbouring threads
// read neighbours in both.
const char* const kFactorText = R"cuda(
struct Args {
  View a, b;
  i64 n, k, a_row, a_column, b_row, b_column;
  A* lower;   // n x n
  A* upper;   // n x (n + k)
  i64* order;
  T* determinant;
  i64 logarithm, needs_inverse;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) factor(const Args a) {
  __shared__ u64 shared[256];
  const i64 n = a.n, width = a.n + a.k;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    const T* const right = (const T*)a.b.data + at(a.b, m);
    A* const lower = a.lower + m * n * n;
    A* const upper = a.upper + m * n * width;
    i64* const order = a.order + m * n;
    for (i64 i = threadIdx.x; i < n; i += 256) order[i] = i;
    __syncthreads();
    f64 sign = 1, logarithm = 0, product = 1;
    for (i64 j = 0; j < n; ++j) {
      f64 most = -1;
      i64 place = n;
      for (i64 p = j + threadIdx.x; p < n; p += 256) {
        const i64 i = order[p];
        A s = load(from[i * a.a_row + j * a.a_column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= lower[l * n + i] * upper[l * width + j];
        lower[j * n + i] = s;
        const f64 size = s != s ? infinity() : fabs((f64)s);
        if (size > most) {
          most = size;
          place = p;
        }
      }
      const f64 top = over_block<Most>(most, shared);
      place = over_block<Least>(most == top ? place : n, shared);
      if (threadIdx.x == 0) {
        const i64 i = order[j];
        order[j] = order[place];
        order[place] = i;
      }
      __syncthreads();
      const i64 row = order[j];
      const A pivot = lower[j * n + row];
      if (a.needs_inverse && pivot == 0) {
        if (threadIdx.x == 0) complain(a.error, a.step, m, 0, bits_of(j + 1));
        break;
      }
      if (pivot < 0) sign = -sign;
      if (place != j) sign = -sign;
      if (pivot == 0) sign = 0;
      logarithm += log(fabs((f64)pivot));
      product *= place != j ? -(f64)pivot : (f64)pivot;
      for (i64 p = j + 1 + threadIdx.x; p < n; p += 256) {
        if (pivot != 0) lower[j * n + order[p]] /= pivot;
      }
      for (i64 c = j + threadIdx.x; c < width; c += 256) {
        A s = c < n ? load(from[row * a.a_row + c * a.a_column]) : load(right[row * a.b_row + (c - n) * a.b_column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= lower[l * n + row] * upper[l * width + c];
        upper[j * width + c] = s;
      }
      __syncthreads();
    }
    if (a.determinant && threadIdx.x == 0)
      a.determinant[m] = store((A)(a.logarithm ? (sign < 0 ? not_a_number() : logarithm) : product));
  }
}
)cuda";

struct Factors {
  View upper;  // n x (n + k) for each matrix
  BufferPtr keep[3];
};
// Of a, beside L⁻¹·P·b where there is a b; `determinant` or its logarithm where that is wanted, which a pivot of zero
// does not keep from being one.
Factors factor(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View* b, void* determinant) {
  const View& a = call.inputs[0];
  const Matrices m(a), right(b ? *b : a);
  const std::int64_t n = m.rows, k = b ? right.columns : 0;
  const DType compute = compute_dtype(a.dtype);
  Factors f;
  f.upper = workspace(gpu, compute, {m.count, n, n + k}, f.keep[0], label_of(call));
  const View lower = workspace(gpu, compute, {m.count, n, n}, f.keep[1], label_of(call));
  const View order = workspace(gpu, DType::i64, {m.count, n}, f.keep[2], label_of(call));
  Words words;
  words.add(m.first).add(right.first).add(n).add(k);
  words.add(m.row_step).add(m.column_step).add(right.row_step).add(right.column_step);
  words.add(lower.data).add(f.upper.data).add(order.data).add(determinant);
  words.add(std::int64_t{call.op == Op::logdet}).add(std::int64_t{b != nullptr});
  add_matrix_check(words, mark, call, singular);
  launch_blocks(gpu, view_text() + element_text(a.dtype) + kFactorText, "factor", m.count, words);
  return f;
}

// x = a⁻¹·b with a triangular, `upward` if what lies above the diagonal counts. A block takes 32 columns of b: a row is
// divided by its diagonal, then leaves the rows after it.
const char* const kSubstituteText = R"cuda(
struct Args {
  View a, b;
  i64 n, k, a_row, a_column, b_row, b_column, upward, unit, tiles;
  A* x;
};
extern "C" __global__ void __launch_bounds__(256) substitute(const Args a) {
  for (i64 task = blockIdx.x; task < a.a.n * a.tiles; task += gridDim.x) {
    const i64 m = quotient(task, a.tiles), first = (task - m * a.tiles) * 32;
    const i64 wide = a.k - first < 32 ? a.k - first : 32;
    const T* const matrix = (const T*)a.a.data + at(a.a, m);
    const T* const b = (const T*)a.b.data + at(a.b, m) + first * a.b_column;
    A* const x = a.x + m * a.n * a.k + first;
    for (i64 e = threadIdx.x; e < a.n * wide; e += 256) {
      const i64 i = quotient(e, wide), c = e - i * wide;
      x[i * a.k + c] = load(b[i * a.b_row + c * a.b_column]);
    }
    __syncthreads();
    for (i64 s = 0; s < a.n; ++s) {
      const i64 j = a.upward ? a.n - 1 - s : s;
      A* const solved = x + j * a.k;
      if (!a.unit && threadIdx.x < wide) solved[threadIdx.x] /= load(matrix[j * (a.a_row + a.a_column)]);
      __syncthreads();
      for (i64 e = threadIdx.x; e < (a.n - 1 - s) * wide; e += 256) {
        const i64 r = quotient(e, wide), c = e - r * wide, i = a.upward ? r : j + 1 + r;
        x[i * a.k + c] -= load(matrix[i * a.a_row + j * a.a_column]) * solved[c];
      }
      __syncthreads();
    }
  }
}
)cuda";

void substitute(Gpu& gpu, const View& a, const View& b, const View& x, bool transposed, bool upward, bool unit) {
  Matrices m(a);
  const Matrices right(b);
  if (transposed) std::swap(m.row_step, m.column_step);
  const std::int64_t tiles = (right.columns + 31) / 32;
  Words words;
  words.add(m.first).add(right.first).add(right.rows).add(right.columns);
  words.add(m.row_step).add(m.column_step).add(right.row_step).add(right.column_step);
  words.add(std::int64_t{upward}).add(std::int64_t{unit}).add(tiles).add(x.data);
  launch_blocks(gpu, view_text() + element_text(a.dtype) + kSubstituteText, "substitute", m.count * tiles, words);
}

}  // namespace

// a = L·Lᵀ by columns, kept by columns while it is made. Only the lower triangle of a is read.
void run_cholesky(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  require_floats(call);
  const View &a = call.inputs[0], &out = call.outputs[0];
  if (a.shape.numel() == 0) return;
  const Matrices m(a);
  BufferPtr keep;
  const View work = dense(out, compute_dtype(a.dtype), keep, gpu, label_of(call));
  const std::string text = view_text() + element_text(a.dtype) + R"cuda(
struct Args {
  View a;
  i64 n, row, column;
  A* work;
  T* out;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) cholesky(const Args a) {
  const i64 n = a.n;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    A* const work = a.work + m * n * n;
    for (i64 j = 0; j < n; ++j) {
      for (i64 i = j + threadIdx.x; i < n; i += 256) {
        A s = load(from[i * a.row + j * a.column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= work[l * n + i] * work[l * n + j];
        work[j * n + i] = s;
      }
      __syncthreads();
      const A square = work[j * n + j];
      __syncthreads();
      if (!(square > 0)) {
        if (threadIdx.x == 0) complain(a.error, a.step, m, 0, bits_of(j + 1));
        break;
      }
      const A root = (A)sqrt((f64)square);
      for (i64 i = j + threadIdx.x; i < n; i += 256) work[j * n + i] = i == j ? root : work[j * n + i] / root;
      __syncthreads();
    }
    for (i64 e = threadIdx.x; e < n * n; e += 256) {
      const i64 i = quotient(e, n), j = e - i * n;
      a.out[m * n * n + e] = store(j <= i ? work[j * n + i] : (A)0);
    }
  }
}
)cuda";
  Words words;
  words.add(m.first).add(m.rows).add(m.row_step).add(m.column_step).add(work.data).add(out.data);
  add_matrix_check(words, mark, call, not_positive_definite);
  launch_blocks(gpu, text, "cholesky", m.count, words);
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
