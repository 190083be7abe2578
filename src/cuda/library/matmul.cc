// SPDX-License-Identifier: MIT
// matmul: floats by cuBLASLt, integers by a kernel.
#include <fmt/format.h>

#include <atomic>

#include "core/ceil_div.h"
#include "core/format_error.h"
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/aligned_product.h"
#include "cuda/library/fp8_product.h"
#include "cuda/library/kernels.h"
#include "cuda/print/expression.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

// Is one of the two strides 1, and the other large enough not to overlap?
bool fits(std::int64_t rows, std::int64_t columns, std::int64_t row_step, std::int64_t column_step) {
  if (column_step == 1 || columns == 1) return rows == 1 || row_step >= columns;
  return (row_step == 1 || rows == 1) && column_step >= rows;
}

void multiply_as_given(Gpu& gpu, const Product& p);

std::atomic<long> by_own_kernel{0};

// Adds the parts [count, m, n] of a product whose rows are dense, in order.
void add_parts(Gpu& gpu, const Product& p, const View& parts) {
  const bool aligned = p.m * p.n % 4 == 0 && reinterpret_cast<std::uintptr_t>(p.c) % 16 == 0;
  launch_elements(gpu, {element_text(p.out) + texts::add_parts}, "add_parts", (p.m * p.n + 3) / 4,
                  AddPartsArgs<void, void>{.parts = parts.data,
                                           .out = p.c,
                                           .n = p.m * p.n,
                                           .count = parts.shape[0],
                                           .add = p.add,
                                           .bias = p.bias,
                                           .columns = p.n,
                                           .aligned = aligned});
}

// The parts are added into a result without gaps: a narrow one is not divided into columns (AlignedProduct).
static_assert(GpuModel{}.narrow_product < GpuModel{}.worth_dividing);
void multiply_in_parts(Gpu& gpu, const Product& p, const SumParts& parts) {
  BufferPtr keep;
  const std::int64_t whole = p.k / parts.each, rest = p.k % parts.each, count = whole + (rest > 0);
  const View sums = workspace(gpu, compute_dtype(p.in), Shape{count, p.m, p.n}, keep, "matmul");
  Product q = p;
  q.k = parts.each;
  q.batches = whole;
  q.a.batch_step = q.k * p.a.column_step;
  q.b.batch_step = q.k * p.b.row_step;
  q.c = static_cast<std::byte*>(sums.data);
  q.c_batch = p.m * p.n;
  q.c_step = p.n;
  q.out = sums.dtype;
  q.add = false;
  q.bias = nullptr;
  multiply_as_given(gpu, q);
  if (rest > 0) {
    const auto behind = [&](const std::byte* x, DType dtype, std::int64_t step) {
      return const_cast<std::byte*>(x) + whole * step * static_cast<std::int64_t>(size_of(dtype));
    };
    q.a.data = behind(p.a.data, p.in, q.a.batch_step);
    q.b.data = behind(p.b.data, p.in, q.b.batch_step);
    q.c = behind(q.c, q.out, q.c_batch);
    q.k = rest;
    q.batches = 1;
    multiply_as_given(gpu, q);
  }
  add_parts(gpu, p, sums);
}

// A product that cuBLASLt does not support, by our own kernel: halves as f32, rounded once.
void multiply_without_library(Gpu& gpu, const Product& p) {
  by_own_kernel.fetch_add(1);
  BufferPtr keep[5];
  const DType wide = compute_dtype(p.in);
  const auto widened = [&](const Matrix& x, std::int64_t rows, std::int64_t columns, BufferPtr& a, BufferPtr& b) {
    View v{x.data, p.in, Shape{p.batches, rows, columns}, {}};
    v.strides[0] = x.batch_step, v.strides[1] = x.row_step, v.strides[2] = x.column_step;
    v = packed(gpu, v, a, "matmul");
    if (wide == p.in) return v;
    const View to = workspace(gpu, wide, v.shape, b, "matmul");
    convert_elements(gpu, to, v);
    return to;
  };
  const View a = widened(p.a, p.m, p.k, keep[0], keep[1]), b = widened(p.b, p.k, p.n, keep[2], keep[3]);
  const View sums = workspace(gpu, wide, Shape{p.batches, p.m, p.n}, keep[4], "matmul");
  const auto data = [](const View& v) { return static_cast<std::byte*>(v.data); };
  multiply_in_order(
      gpu, {wide, data(a), data(b), data(sums), p.m, p.n, p.k, p.batches, p.k, 1, p.m * p.k, p.n, 1, p.k * p.n, false});
  launch_elements(gpu, {element_text(p.out) + texts::finish_product}, "finish_product", p.batches * p.m * p.n,
                  FinishProductArgs<void, void>{.sums = sums.data,
                                                .out = p.c,
                                                .n = p.batches * p.m * p.n,
                                                .of_batch = p.m * p.n,
                                                .out_batch = p.c_batch,
                                                .add = p.add,
                                                .bias = p.bias,
                                                .columns = p.n});
}

// A result with dense rows, copied to where they are further apart.
void multiply_densely(Gpu& gpu, const Product& p) {
  BufferPtr keep;
  View to{p.c, p.out, Shape{p.batches, p.m, p.n}, {}};
  to.strides[0] = p.c_batch, to.strides[1] = p.c_step, to.strides[2] = 1;
  const View dense = workspace(gpu, p.out, to.shape, keep, "matmul");
  if (p.add) copy_elements(gpu, dense, to);
  Product q = p;
  q.c = static_cast<std::byte*>(dense.data);
  q.c_step = p.n;
  q.c_batch = p.m * p.n;
  multiply_as_given(gpu, q);
  copy_elements(gpu, to, dense);
}

void multiply_as_given(Gpu& gpu, const Product& p) {
  if (batch_invariant() && !is_half(p.in)) {
    if (p.c_step != p.n) return multiply_densely(gpu, p);
    return multiply_in_order(
        gpu, {p.in, p.a.data, p.b.data, p.c, p.m, p.n, p.k, p.batches, p.a.row_step, p.a.column_step, p.a.batch_step,
              p.b.row_step, p.b.column_step, p.b.batch_step, p.add});
  }
  const LtProduct product(p);
  const std::optional<Heuristic> chosen = algorithm_for(gpu, p, product);
  BufferPtr workspace;
  if (chosen && chosen->workspace)
    workspace =
        BufferPtr::allocate(chosen->workspace, "matmul", {Device::Kind::cuda, static_cast<std::uint8_t>(gpu.index())});
  if (chosen && product.run(gpu, p, *chosen, workspace.data())) return;
  if (p.c_step != p.n) return multiply_densely(gpu, p);
  multiply_without_library(gpu, p);
}

// Products that cuBLASLt would compute as tiles of mostly nothing, from factors whose odd rows it reads by single
// elements: a vector of 3 by a matrix of 3 x 4,583 took 0.75 ms with both gradients, PyTorch 0.14; in f32 3 rows of
// 1,933 by 2,049 columns took 310 µs, and 102,497 products of 4 x 4 matrices 100. The number of terms, of columns and
// the order in memory decide, so that rows of halves do not depend on their number.
enum class Thin : std::uint8_t { no, few_terms, narrow, few_rows, small };
Thin thinness(const GpuModel& model, const Product& p) {
  const bool is_float = p.in == DType::f32 || p.in == DType::f64;
  if (is_float ? batch_invariant() || p.tf32 : !is_half(p.in)) return Thin::no;
  const std::int64_t small = model.small_matrix;
  if (is_float && p.m <= small && p.n <= small && p.k <= small) return Thin::small;
  if (is_half(p.in) && p.k < kFewTerms) return Thin::few_terms;
  if (p.in == DType::f64 || p.batches > 1 || p.k < model.long_thin_sum) return Thin::no;
  if (is_half(p.in)) return p.n > 1 && p.n < model.aligned_elements && p.a.by_rows() ? Thin::narrow : Thin::no;
  const bool few_rows =
      p.m > 1 && p.m < model.aligned_elements && p.n >= model.wide_thin_product && p.b.by_rows() && p.c_step == p.n;
  return few_rows ? Thin::few_rows : Thin::no;
}

bool multiply_thin(Gpu& gpu, const Product& p) {
  const GpuModel& model = gpu.model();
  const Thin thin = thinness(model, p);
  if (thin == Thin::no) return false;
  by_own_kernel.fetch_add(1);
  const std::string types =
      element_text(p.out) +
      fmt::format("typedef {} In;\nEBB A term_of(In x) {{ return {}; }}\nconstexpr int kColumns = {}, kRows = {};\n",
                  memory_text(p.in), is_half(p.in) ? loaded("x", p.in, RegType::f32) : "x",
                  thin == Thin::narrow ? p.n : 1, thin == Thin::few_rows ? p.m : 1);
  const std::int64_t part = thin == Thin::few_rows
                                ? std::max(model.few_rows_part, ceil_div(p.k * p.n, model.few_rows_threads))
                                : model.thin_part;
  ThinProductArgs<void, void> args{.a = p.a.data,
                                   .b = p.b.data,
                                   .c = p.c,
                                   .sums = nullptr,
                                   .bias = p.bias,
                                   .m = p.m,
                                   .n = p.n,
                                   .k = p.k,
                                   .batches = p.batches,
                                   .a_row = p.a.row_step,
                                   .a_column = p.a.column_step,
                                   .a_batch = p.a.batch_step,
                                   .b_row = p.b.row_step,
                                   .b_column = p.b.column_step,
                                   .b_batch = p.b.batch_step,
                                   .c_row = p.c_step,
                                   .c_batch = p.c_batch,
                                   .part = part,
                                   .parts = ceil_div(p.k, part),
                                   .add = p.add};
  const KernelSource source{types + texts::thin_product};
  if (thin == Thin::small) {
    launch_elements(gpu, source, "multiply_small", p.batches * p.m * p.n, args);
    return true;
  }
  if (thin == Thin::few_terms) {
    launch_elements(gpu, source, "multiply_few_terms", p.batches * p.m * ((p.n + 3) / 4), args);
    return true;
  }
  BufferPtr keep;
  const View sums = workspace(gpu, DType::f32, Shape{args.parts, p.m, p.n}, keep, "matmul");
  args.sums = elements<f32>(sums);
  if (thin == Thin::few_rows) {
    launch_elements(gpu, source, "multiply_few_rows", p.n * args.parts, args);
    add_parts(gpu, p, sums);
    return true;
  }
  launch_elements(gpu, source, "multiply_narrow", 32 * p.m * args.parts, args);
  launch_elements(gpu, source, "add_narrow", 32 * p.m * p.n, args);
  return true;
}

void multiply(Gpu& gpu, const Product& p) {
  if (multiply_thin(gpu, p)) return;
  const SumParts parts = parts_of_sum(gpu.model(), p, batch_invariant());
  const AlignedProduct aligned(gpu, p, parts.count == 1);
  for (const Product& q : aligned.products()) {
    if (parts.count > 1) {
      multiply_in_parts(gpu, q, parts);
    } else {
      multiply_as_given(gpu, q);
    }
  }
  aligned.finish();
}

}  // namespace

long products_by_own_kernel() { return by_own_kernel; }

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
  p.tf32 = p.in == DType::f32 && tf32();
  View a = given_a, b = given_b;
  if (!fits(p.m, p.k, a.strides[rank - 2], a.strides[rank - 1])) a = packed(gpu, a, keep_a, "matmul");
  if (!fits(p.k, p.n, b.strides[rank - 2], b.strides[rank - 1])) b = packed(gpu, b, keep_b, "matmul");
  const auto matrix = [&](const View& v, std::int64_t rows, std::int64_t columns) {
    Matrix x;
    x.row_step = v.strides[rank - 2];
    x.column_step = v.strides[rank - 1];
    if (columns == 1) x.column_step = 1;  // its stride is irrelevant
    if (rows == 1 && x.column_step == 1) x.row_step = columns + v.room;
    x.room = v.room;
    return x;
  };
  p.a = matrix(a, p.m, p.k);
  p.b = matrix(b, p.k, p.n);
  // Batches: the innermost dimension is part of each call; if b is the same for all of them, and a's rows continue
  // evenly, it is just more rows.
  int inner = rank - 3;
  p.batches = 1;
  while (inner >= 0 && out.shape[inner] == 1) --inner;
  for (; inner >= 0 && b.strides[inner] == 0 && p.a.by_rows() && a.strides[inner] == p.m * p.a.row_step; --inner) {
    p.m *= out.shape[inner];
    while (inner > 0 && out.shape[inner - 1] == 1) --inner;
  }
  p.c_step = out.strides[rank - 2];
  p.c_room = out.room;
  if (out.shape[rank - 2] == 1) p.c_step = p.n + p.c_room;  // its stride is irrelevant
  p.c_batch = p.m * p.c_step;
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

void integer_matmul(Gpu& gpu, const View& a, const View& b, const View& out) {
  const int rank = out.shape.rank();
  View rows = a, columns = b;
  rows.shape = columns.shape = out.shape;
  rows.strides[rank - 1] = 0;
  columns.strides[rank - 2] = 0;
  launch_elements(gpu, {element_text(out.dtype) + texts::integer_matmul}, "multiply", out.shape.numel(),
                  IntegerMatmulArgs<void>{.a = kernel_view(rows),
                                          .b = kernel_view(columns),
                                          .out = out.data,
                                          .k = a.shape[rank - 1],
                                          .a_step = a.strides[rank - 1],
                                          .b_step = b.strides[rank - 2]});
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
    if (call.adds) return;
    return gpu.clear(out.data, static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype));
  }
  require(a.dtype != DType::bool_, Error::Kind::type, "{}: bool matrices have no product; cast them to a number first",
          label_of(call));
  if (!is_floating(a.dtype)) return integer_matmul(gpu, a, b, out);
  if (is_fp8(call.attrs)) return multiply_fp8(gpu, a, b, out, options_as<Fp8Product>(call.attrs), call.adds);
  if (!has_row) return multiply_floats(gpu, a, b, out, call.adds);
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
