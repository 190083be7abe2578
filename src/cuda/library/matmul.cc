// matmul: floats by cuBLASLt, integers by a kernel.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "core/format_error.h"
#include "cuda/library/cublaslt.h"
#include "cuda/library/kernels.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

void check_lt(Status status, const char* call) { require(status == 0, "cuda: {} failed with status {}", call, status); }

int lt_type(DType d) { return d == DType::f64 ? kR64 : d == DType::f32 ? kR32 : d == DType::f16 ? kR16 : kRB16; }

// A matrix of row-major rows x columns elements in memory, as cuBLASLt wants it: one of the strides is 1.
struct Matrix {
  std::byte* data = nullptr;
  std::int64_t row_step = 0, column_step = 0, batch_step = 0;

  bool by_rows() const { return column_step == 1; }
};

// Is one of the two strides 1, and the other large enough not to overlap?
bool fits(std::int64_t rows, std::int64_t columns, std::int64_t row_step, std::int64_t column_step) {
  if (column_step == 1 || columns == 1) return rows == 1 || row_step >= columns;
  return (row_step == 1 || rows == 1) && column_step >= rows;
}

class Handle {
 public:
  explicit Handle(Status (*destroy)(void*)) : destroy_(destroy) {}
  ~Handle() {
    if (of) destroy_(of);
  }
  Handle(const Handle&) = delete;
  void* of = nullptr;

 private:
  Status (*destroy_)(void*);
};

// Row-major C[m, n] = A[m, k]·B[k, n] is column-major Cᵀ = Bᵀ·Aᵀ: the first operand is B.
struct Product {
  std::int64_t m, n, k, batches;
  Matrix a, b;
  DType in, out;
  std::byte* c;
  std::int64_t c_batch;
  bool add;                    // to what c holds
  const void* bias = nullptr;  // n elements like those of c, added to each row before it is rounded
};

void matrix_layout(Handle& h, DType dtype, const Matrix& x, std::int64_t rows, std::int64_t columns,
                   std::int64_t batches) {
  // Stored by rows it is, in column order, a matrix of columns x rows.
  const bool by_rows = x.by_rows();
  const std::int64_t across = by_rows ? columns : rows, down = by_rows ? rows : columns;
  const std::int64_t step = std::max<std::int64_t>(by_rows ? x.row_step : x.column_step, across);
  check_lt(lt().create_matrix(&h.of, lt_type(dtype), static_cast<std::uint64_t>(across),
                              static_cast<std::uint64_t>(down), step),
           "cublasLtMatrixLayoutCreate");
  if (batches == 1) return;
  const auto count = static_cast<std::int32_t>(batches);
  check_lt(lt().set_matrix(h.of, kBatchCount, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
  check_lt(lt().set_matrix(h.of, kBatchOffset, &x.batch_step, sizeof x.batch_step), "cublasLtMatrixLayoutSetAttribute");
}

void describe(const Product& p, Handle& a, Handle& b, Handle& c) {
  matrix_layout(a, p.in, p.a, p.m, p.k, p.batches);
  matrix_layout(b, p.in, p.b, p.k, p.n, p.batches);
  matrix_layout(c, p.out, {p.c, p.n, 1, p.c_batch}, p.m, p.n, p.batches);
}

std::uint32_t alignment(const void* p, std::int64_t step, DType dtype) {
  const std::uint64_t bits =
      reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uint64_t>(step) * size_of(dtype) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

constexpr std::size_t kWorkspace = std::size_t{32} << 20;

// For products of fewer rows cuBLASLt knows other kernels, which add in another order.
constexpr std::int64_t kFewestRows = 64;

// The same algorithm for the same product, by heuristic and not by timing; none that splits k among blocks, since then
// the order of a sum would depend on the number of rows; and of halves, that of at least kFewestRows rows. Asking costs
// more than a small product: answers are kept.
Heuristic algorithm_for(const Product& given, void* product) {
  Product p = given;
  if (is_half(p.in) && p.batches == 1) p.m = std::max(p.m, kFewestRows);
  const auto step = [](const Matrix& x) { return x.by_rows() ? x.row_step : x.column_step; };
  const std::array<std::uint32_t, 4> alignments{
      alignment(p.b.data, p.b.batch_step | step(p.b), p.in), alignment(p.a.data, p.a.batch_step | step(p.a), p.in),
      alignment(p.c, p.n | p.c_batch, p.out), alignment(p.c, p.n | p.c_batch, p.out)};
  const std::array<std::int64_t, 17> key{p.m,
                                         p.n,
                                         p.k,
                                         p.batches,
                                         p.a.by_rows(),
                                         step(p.a),
                                         p.a.batch_step,
                                         p.b.by_rows(),
                                         step(p.b),
                                         p.b.batch_step,
                                         p.c_batch,
                                         static_cast<std::int64_t>(p.in),
                                         static_cast<std::int64_t>(p.out),
                                         alignments[0],
                                         alignments[1],
                                         alignments[2],
                                         p.bias != nullptr};
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<std::array<std::int64_t, 17>, Heuristic>;
  std::lock_guard guard(*mutex);
  if (const auto it = known->find(key); it != known->end()) return it->second;
  const Lt& l = lt();
  Handle preference(l.destroy_preference), a(l.destroy_matrix), b(l.destroy_matrix), c(l.destroy_matrix);
  describe(p, a, b, c);
  check_lt(l.create_preference(&preference.of), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int what, const auto& value) {
    check_lt(l.set_preference(preference.of, what, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(kMostWorkspace, kWorkspace);
  prefer(kReductions, std::uint32_t{0});
  for (int i = 0; i < 4; ++i) prefer(kAlignA + i, alignments[static_cast<std::size_t>(i)]);
  Heuristic found[16];
  int count = 0;
  check_lt(l.heuristic(l.handle, product, b.of, a.of, c.of, c.of, preference.of, 16, found, &count),
           "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i) {
    std::int32_t split = 0;
    std::size_t written = 0;
    l.algorithm_number(&found[i].algorithm, kSplitK, &split, sizeof split, &written);
    if (found[i].state == 0 && split <= 1) return known->emplace(key, found[i]).first->second;
  }
  fail(Error::Kind::value, "matmul: cuBLASLt has no algorithm for [{}, {}]·[{}, {}] of {}", p.m, p.k, p.k, p.n,
       name(p.in));
}

void multiply(Gpu& gpu, const Product& p);

// Where k is long and the result narrow there are too few tiles for all multiprocessors, as in the gradients of weights
// over many tokens: parts of k are products side by side, added in order. Whether is decided by k and n alone, so that
// rows do not depend on their number.
constexpr std::int64_t kParts = 4, kLong = 16384, kNarrow = 1024;
bool divides(const Product& p) {
  return is_half(p.in) && p.batches == 1 && p.k >= kLong && p.k % (8 * kParts) == 0 && p.n <= kNarrow;
}
void multiply_in_parts(Gpu& gpu, const Product& p) {
  BufferPtr keep;
  const View sums = workspace(gpu, DType::f32, Shape{kParts, p.m, p.n}, keep, "matmul");
  Product q = p;
  q.k = p.k / kParts;
  q.batches = kParts;
  q.a.batch_step = q.k * p.a.column_step;
  q.b.batch_step = q.k * p.b.row_step;
  q.c = static_cast<std::byte*>(sums.data);
  q.c_batch = p.m * p.n;
  q.out = DType::f32;
  q.add = false;
  q.bias = nullptr;
  multiply(gpu, q);
  const std::string text = view_text() + element_text(p.out) + R"cuda(
struct Args { const f32* parts; T* out; i64 n, count, add; const T* bias; i64 columns; };
extern "C" __global__ void __launch_bounds__(256) add_parts(const Args a) {
  EACH(i, a.n) {
    f32 total = a.parts[i];
    for (i64 k = 1; k < a.count; ++k) total += a.parts[k * a.n + i];
    if (a.add) total += (f32)load(a.out[i]);
    if (a.bias) total += (f32)load(a.bias[i % a.columns]);
    a.out[i] = store((A)total);
  }
}
)cuda";
  launch_elements(gpu, text, "add_parts", p.m * p.n,
                  Words()
                      .add(sums.data)
                      .add(static_cast<const void*>(p.c))
                      .add(p.m * p.n)
                      .add(kParts)
                      .add(std::int64_t{p.add})
                      .add(p.bias)
                      .add(p.n));
}

void multiply(Gpu& gpu, const Product& p) {
  if (divides(p)) return multiply_in_parts(gpu, p);
  if (batch_invariant() && !is_half(p.in)) {
    return multiply_in_order(
        gpu, {p.in, p.a.data, p.b.data, p.c, p.m, p.n, p.k, p.batches, p.a.row_step, p.a.column_step, p.a.batch_step,
              p.b.row_step, p.b.column_step, p.b.batch_step, p.add});
  }
  const Lt& l = lt();
  const bool wide = p.in == DType::f64;
  Handle product(l.destroy_product), a(l.destroy_matrix), b(l.destroy_matrix), c(l.destroy_matrix);
  check_lt(l.create_product(&product.of, wide ? kCompute64 : kCompute32, wide ? kR64 : kR32),
           "cublasLtMatmulDescCreate");
  const std::int32_t transpose_b = p.b.by_rows() ? 0 : 1, transpose_a = p.a.by_rows() ? 0 : 1;
  check_lt(l.set_product(product.of, kTransA, &transpose_b, sizeof transpose_b), "cublasLtMatmulDescSetAttribute");
  check_lt(l.set_product(product.of, kTransB, &transpose_a, sizeof transpose_a), "cublasLtMatmulDescSetAttribute");
  if (p.bias) {
    check_lt(l.set_product(product.of, kEpilogue, &kAddsBias, sizeof kAddsBias), "cublasLtMatmulDescSetAttribute");
    check_lt(l.set_product(product.of, kBias, &p.bias, sizeof p.bias), "cublasLtMatmulDescSetAttribute");
  }
  describe(p, a, b, c);
  const Heuristic chosen = algorithm_for(p, product.of);
  BufferPtr workspace;
  if (chosen.workspace)
    workspace =
        BufferPtr::allocate(chosen.workspace, "matmul", {Device::Kind::cuda, static_cast<std::uint8_t>(gpu.index())});
  const double one = 1, zero = p.add ? 1 : 0;
  const float one_f = 1, zero_f = p.add ? 1 : 0;
  const void *alpha = wide ? static_cast<const void*>(&one) : &one_f,
             *beta = wide ? static_cast<const void*>(&zero) : &zero_f;
  check_lt(l.multiply(l.handle, product.of, alpha, p.b.data, b.of, p.a.data, a.of, beta, p.c, c.of, p.c, c.of,
                      &chosen.algorithm, workspace.data(), chosen.workspace, gpu.stream()),
           "cublasLtMatmul");
}

}  // namespace

void multiply_floats(Gpu& gpu, const View& given_a, const View& given_b, const View& out, bool add, const void* bias) {
  if (out.shape.numel() == 0) return;
  if (given_a.shape[given_a.shape.rank() - 1] == 0) {
    if (!add) gpu.clear(out.data, static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype));
    return;
  }
  BufferPtr keep_a, keep_b;
  const int rank = out.shape.rank();
  Product p;
  p.m = out.shape[rank - 2];
  p.n = out.shape[rank - 1];
  p.k = given_a.shape[rank - 1];
  p.in = given_a.dtype;
  p.out = out.dtype;
  p.add = add;
  p.bias = bias;
  View a = given_a, b = given_b;
  if (!fits(p.m, p.k, a.strides[rank - 2], a.strides[rank - 1])) a = packed(gpu, a, keep_a, "matmul");
  if (!fits(p.k, p.n, b.strides[rank - 2], b.strides[rank - 1])) b = packed(gpu, b, keep_b, "matmul");
  const auto matrix = [&](const View& v, std::int64_t rows, std::int64_t columns) {
    Matrix x;
    x.row_step = v.strides[rank - 2];
    x.column_step = v.strides[rank - 1];
    if (columns == 1) x.column_step = 1;  // its stride means nothing
    if (rows == 1 && x.column_step == 1) x.row_step = columns;
    return x;
  };
  p.a = matrix(a, p.m, p.k);
  p.b = matrix(b, p.k, p.n);
  // Batches: the innermost dimension goes along in a call; where b is the same for all of them, and a's rows go on
  // evenly, it is only more rows.
  int inner = rank - 3;
  p.batches = 1;
  p.c_batch = p.m * p.n;
  while (inner >= 0 && out.shape[inner] == 1) --inner;
  for (; inner >= 0 && b.strides[inner] == 0 && p.a.by_rows() && a.strides[inner] == p.m * p.a.row_step; --inner) {
    p.m *= out.shape[inner];
    while (inner > 0 && out.shape[inner - 1] == 1) --inner;
  }
  p.c_batch = p.m * p.n;
  if (inner >= 0) {
    p.batches = out.shape[inner];
    p.a.batch_step = a.strides[inner];
    p.b.batch_step = b.strides[inner];
    --inner;
  }
  std::int64_t outer = 1;
  for (int d = 0; d <= inner; ++d) outer *= out.shape[d];
  for (std::int64_t o = 0; o < outer; ++o) {
    std::int64_t rest = o, at_a = 0, at_b = 0;
    for (int d = inner; d >= 0; --d) {
      at_a += rest % out.shape[d] * a.strides[d];
      at_b += rest % out.shape[d] * b.strides[d];
      rest /= out.shape[d];
    }
    p.a.data = element_at(a, at_a);
    p.b.data = element_at(b, at_b);
    p.c = element_at(out, o * p.batches * p.c_batch);
    multiply(gpu, p);
  }
}

namespace {

// A thread per element; integers wrap.
void integer_matmul(Gpu& gpu, const View& a, const View& b, const View& out) {
  const int rank = out.shape.rank();
  const std::string text = view_text() + element_text(out.dtype) + R"cuda(
struct Args { View a, b; T* out; i64 k, a_step, b_step; };
extern "C" __global__ void __launch_bounds__(256) multiply(const Args a) {
  EACH(i, a.a.n) {
    const T* const x = (const T*)a.a.data + at(a.a, i);
    const T* const y = (const T*)a.b.data + at(a.b, i);
    A total = 0;
    for (i64 k = 0; k < a.k; ++k) total = sum(total, product(load(x[k * a.a_step]), load(y[k * a.b_step])));
    a.out[i] = store(total);
  }
}
)cuda";
  View rows = a, columns = b;
  rows.shape = columns.shape = out.shape;
  rows.strides[rank - 1] = 0;
  columns.strides[rank - 2] = 0;
  launch_elements(gpu, text, "multiply", out.shape.numel(),
                  Words()
                      .add(rows)
                      .add(columns)
                      .add(out.data)
                      .add(a.shape[rank - 1])
                      .add(a.strides[rank - 1])
                      .add(b.strides[rank - 2]));
}

}  // namespace

void run_matmul(const LibraryCall& call, Gpu& gpu) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  const bool has_row = call.inputs.size() == 3;
  if (a.shape[a.shape.rank() - 1] == 0) {
    if (has_row) {
      View row = call.inputs[2];
      row.shape = out.shape;
      row.strides = {};
      row.strides[out.shape.rank() - 1] = 1;
      return copy_elements(gpu, out, row);
    }
    return gpu.clear(out.data, static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype));
  }
  require(a.dtype != DType::bool_, Error::Kind::type, "{}: bool matrices have no product; cast them to a number first",
          label_of(call));
  if (!is_floating(a.dtype)) return integer_matmul(gpu, a, b, out);
  if (!has_row) return multiply_floats(gpu, a, b, out);
  View row = call.inputs[2];
  BufferPtr keep;
  if (reinterpret_cast<std::uintptr_t>(row.data) % 16 != 0) {
    View one = row;
    one.shape = {out.shape[out.shape.rank() - 1]};
    one.strides = contiguous_strides(one.shape);
    row = dense(one, row.dtype, keep, gpu, "matmul");
    copy_elements(gpu, row, one);
  }
  multiply_floats(gpu, a, b, out, false, row.data);
}

}  // namespace ebb::cuda
