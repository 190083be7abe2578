// SPDX-License-Identifier: MIT
// Factorisations and decompositions on the GPU: by kernels of our own and by cuSOLVER.
#include <cmath>
#include <functional>
#include <limits>

#include "calls/factors.h"
#include "calls/triangular_solve.h"
#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/library_on_gpu.h"
#include "cuda/runtime/gpu.h"
#include "graph/node.h"

namespace ebb::testing {
namespace {

class FactorisationsOnGpu : public LibraryOnGpu {};

Tensor packed_factors(const std::vector<Tensor>& in) {
  const Shape& a = in[0].shape();
  return make_node(Op::det, in[0].dtype(), a.with(1, a[1] + 1), in, with_options(FactorsCall{})).eval();
}

// The operations themselves, which take halves, too: with more rows than a block has threads, in batches, broadcast,
// transposed and empty.
TEST_P(FactorisationsOnGpu, Factorisations) {
  const DType dtype = GetParam();
  const auto same = [&](const std::string& what, const std::vector<Tensor>& inputs, const auto& f) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kGpu));
    expect_same(f(inputs), f(there), what);
  };
  const auto call = [&](Op op, const Attrs& attrs = {}) {
    return [=](const std::vector<Tensor>& in) {
      const Shape& a = in[0].shape();
      const Shape shape = in.size() > 1        ? in[1].shape()
                          : op == Op::cholesky ? a
                                               : a.without(a.rank() - 1).without(a.rank() - 2);
      return make_node(op, dtype, shape, in, attrs).eval();
    };
  };
  const bool whole = dtype == DType::f32;
  for (const std::int64_t n :
       whole ? std::vector<std::int64_t>{0, 1, 2, 8, 9, 31, 40, 131, 270} : std::vector<std::int64_t>{1, 8, 31, 40}) {
    for (const std::int64_t count : {0, 1, 3}) {
      if (n * count > 300) continue;
      const std::string size = fmt::format(" of {} x {} x {}", count, n, n);
      const Tensor noise =
          randn({count, n, n}) + 3 * std::sqrt(static_cast<double>(n)) * flip(eye(n), {1});  // needs pivots
      const Tensor a = cast(noise, dtype).eval(), b = cast(randn({count, n, 37}), dtype).eval();
      const Tensor good =
          cast(matmul(noise, transpose(noise, 1, 2)) / static_cast<double>(n + 1) + eye(n), dtype).eval();
      same("cholesky" + size, {good}, call(Op::cholesky));
      same("solve" + size, {a, b}, call(Op::solve));
      same("solve, transposed" + size, {transpose(a, 1, 2), transpose(cast(randn({count, 5, n}), dtype).eval(), 1, 2)},
           call(Op::solve));
      same("solve, one matrix" + size, {expand(cast(noise.slice(0, 0, 1), dtype).eval(), {count, n, n}), b},
           call(Op::solve));
      if (n <= 40)
        same("det" + size, {cast(noise / std::sqrt(static_cast<double>(9 * n + 1)), dtype).eval()}, call(Op::det));
      same("logdet" + size, {good}, call(Op::logdet));
      if (!is_half(dtype)) same("factors" + size, {a}, packed_factors);
      for (int kind = 0; kind < (n <= 40 ? 8 : 1); ++kind) {
        const Attrs attrs = with_options(TriangularSolveCall{(kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0});
        const Tensor t = cast(randn({count, n, n}) / static_cast<double>(n + 1) + eye(n), dtype).eval();
        same(fmt::format("triangular_solve {}{}", kind, size), {t, b}, call(Op::triangular_solve, attrs));
        same(fmt::format("triangular_solve {}{}, few columns, of a transposed matrix", kind, size),
             {transpose(t, 1, 2), b.slice(2, 0, 5)}, call(Op::triangular_solve, attrs));
      }
    }
  }
  same("det of a singular matrix", {cast(tensor({{1.0, 2.0}, {2.0, 4.0}}), dtype).eval()}, call(Op::det));
  same("logdet of matrices with determinants below 0 and of 0",
       {cast(tensor({{{0.0, 1.0}, {1.0, 0.0}}, {{1.0, 2.0}, {2.0, 4.0}}, {{-1.0, 0.0}, {0.0, -2.0}}}), dtype).eval()},
       call(Op::logdet));
}

// With gradients, from factors that both share; of matrices with positive, negative and no determinants.
TEST_P(FactorisationsOnGpu, DeterminantsShareTheirFactors) {
  for (const std::int64_t n : {5, 33, 70}) {
    const Tensor noise = randn({2, n, n}) / std::sqrt(static_cast<double>(n)) + flip(eye(n), {1}) * 2;
    const Tensor a = cast(noise, GetParam()).eval();
    const std::string size = fmt::format(" of {} rows", n);
    compare("det" + size, {a}, [](const std::vector<Tensor>& in) { return det(in[0]); });
    compare("logdet" + size, {a}, [](const std::vector<Tensor>& in) {
      return where(isnan(logdet(in[0])), 0.0, logdet(matmul(in[0], transpose(in[0], 1, 2)) + eye(in[0].size(-1))));
    });
    compare("slogdet" + size, {a}, [](const std::vector<Tensor>& in) {
      const auto [sign, size_of] = slogdet(in[0]);
      return sign * 3 + size_of;
    });
  }
}

// cuSOLVER for matrices of three rows and more, and up to 40 rows all at a time.
struct UsesCusolver {
  cuda::GpuModel before = cuda::gpu(0).model();
  UsesCusolver() {
    if (device_is_emulated()) cuda::install_cusolver(&emulated_cusolver(), &emulated_cublas());
    cuda::GpuModel model = before;
    model.few_rows = 2;
    model.solver_rows = model.lu_solver_rows = model.decomposed_rows = 3;
    model.batched_rows = 40;
    cuda::gpu(0).set_model(model);
  }
  ~UsesCusolver() {
    if (device_is_emulated()) cuda::install_cusolver(nullptr, nullptr);
    cuda::gpu(0).set_model(before);
  }
};
std::string message_of(const std::function<Tensor()>& f) {
  try {
    (void)f().to_vector<double>();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The same by cuSOLVER, which large matrices go to; with the CPU's errors.
TEST_P(FactorisationsOnGpu, FactorisationsByCusolver) {
  const DType dtype = GetParam();
  const UsesCusolver uses;
  const auto call = [&](Op op) {
    return [=](const std::vector<Tensor>& in) {
      const Shape& a = in[0].shape();
      const Shape shape = in.size() > 1        ? in[1].shape()
                          : op == Op::cholesky ? a
                                               : a.without(a.rank() - 1).without(a.rank() - 2);
      return make_node(op, dtype, shape, in).eval();
    };
  };
  const auto same = [&](const std::string& what, const std::vector<Tensor>& inputs, Op op) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kGpu));
    expect_same(call(op)(inputs), call(op)(there), what);
  };
  const long before = emulated_solver_calls();
  for (const std::int64_t n : {3, 40, 70}) {
    for (const std::int64_t count : {1, 3}) {
      const std::string size = fmt::format(" of {} x {} x {}", count, n, n);
      const Tensor noise = randn({count, n, n}) + 3 * std::sqrt(static_cast<double>(n)) * flip(eye(n), {1});
      const Tensor a = cast(noise, dtype).eval(), b = cast(randn({count, n, 7}), dtype).eval();
      const Tensor good =
          cast(matmul(noise, transpose(noise, 1, 2)) / static_cast<double>(n + 1) + eye(n), dtype).eval();
      same("cholesky" + size, {good}, Op::cholesky);
      same("cholesky, transposed" + size, {transpose(good, 1, 2)}, Op::cholesky);
      same("solve" + size, {a, b}, Op::solve);
      same("solve, transposed" + size, {transpose(a, 1, 2), transpose(cast(randn({count, 5, n}), dtype).eval(), 1, 2)},
           Op::solve);
      same("solve, one matrix" + size, {expand(cast(noise.slice(0, 0, 1), dtype).eval(), {count, n, n}), b}, Op::solve);
      if (n <= 40) same("det" + size, {cast(noise / std::sqrt(static_cast<double>(9 * n + 1)), dtype).eval()}, Op::det);
      same("logdet" + size, {good}, Op::logdet);
      if (!is_half(dtype)) expect_same(packed_factors({a}), packed_factors({a.to(kGpu)}), "factors" + size);
    }
  }
  EXPECT_TRUE(!device_is_emulated() || emulated_solver_calls() > before);
  const Tensor minor = cast(tensor({{{4.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}},
                                    {{4.0, 0.0, 0.0}, {0.0, -1.0, 0.0}, {0.0, 0.0, 1.0}}}),
                            dtype)
                           .eval();
  const Tensor rank = cast(tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}}), dtype).eval();
  const Tensor right = cast(ones({3, 1}), dtype).eval();
  const Tensor nan = cast(minor * std::numeric_limits<double>::quiet_NaN(), dtype).eval();
  EXPECT_EQ(message_of([&] { return call(Op::cholesky)({minor.to(kGpu)}); }),
            message_of([&] { return call(Op::cholesky)({minor}); }));
  EXPECT_EQ(message_of([&] { return call(Op::cholesky)({nan.to(kGpu)}); }),
            "cholesky: matrix 0 is not positive definite (leading minor 1)");
  EXPECT_EQ(message_of([&] {
              return call(Op::solve)({rank.to(kGpu), right.to(kGpu)});
            }),
            message_of([&] {
              return call(Op::solve)({rank, right});
            }));
  same("det of a singular matrix", {rank}, Op::det);
}

// The signs of results depend on the library, so their products are compared: one matrix, small ones at once, tall,
// wide.
TEST_P(FactorisationsOnGpu, DecompositionsByCusolver) {
  const DType dtype = GetParam();
  const UsesCusolver uses;
  const long before = emulated_solver_calls();
  const auto near = [&](const Tensor& found, const Tensor& wanted, const std::string& what) {
    expect_same(cast(wanted, dtype), cast(found.to(Device{}), dtype), what);
  };
  const auto T = [](const Tensor& x) { return transpose(x, -2, -1); };
  for (const Shape& shape :
       {Shape{5, 5}, Shape{3, 7, 4}, Shape{2, 4, 7}, Shape{2, 2, 6, 6}, Shape{40, 35}, Shape{2, 40, 40}}) {
    const Tensor a = real(shape), there = a.to(kGpu);
    const std::string of = fmt::format(" of {}", fmt::join(shape.begin(), shape.end(), " x "));
    const std::int64_t k = std::min(shape[shape.rank() - 1], shape[shape.rank() - 2]);
    const auto [q, r] = qr(there);
    near(matmul(q, r), a, "Q·R" + of);
    near(matmul(T(q), q), expand(eye(k), matmul(T(q), q).shape()), "Qᵀ·Q" + of);
    near(tril(r, -1), zeros(r.shape()), "below R's diagonal" + of);
    const auto [u, s, vt] = svd(there);
    near(s, std::get<1>(svd(a)), "singular values" + of);
    near(matmul(u * unsqueeze(s, -2), vt), a, "U·S·Vᵀ" + of);
    near(matmul(T(u), u), expand(eye(k), matmul(T(u), u).shape()), "Uᵀ·U" + of);
    const auto slope = [&](const Tensor& x) {
      const Tensor v = variable(x);
      return backward(sum(std::get<1>(svd(v)) * (1 + arange(k))))[v];
    };
    near(slope(there), slope(a), "gradient of singular values" + of);
    if (shape[shape.rank() - 1] != shape[shape.rank() - 2]) continue;
    const Tensor symmetric = (a + T(a)).eval();
    const auto [w, v] = eigh(symmetric.to(kGpu));
    near(w, eigh(symmetric).first, "eigenvalues" + of);
    near(matmul(v * unsqueeze(w, -2), T(v)), symmetric, "V·W·Vᵀ" + of);
  }
  EXPECT_TRUE(!device_is_emulated() || emulated_solver_calls() > before);
  // A value, its gradient and what else follows from a factorisation need it once.
  const auto calls_of = [](const std::function<void()>& f) {
    const long start = emulated_solver_calls();
    f();
    return emulated_solver_calls() - start;
  };
  const Tensor tall_here = real({9, 6}), right_here = real({9, 2});
  const Tensor tall = tall_here.to(kGpu), right = right_here.to(kGpu), square = real({6, 6}).to(kGpu);
  const auto differentiated = [](const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
    const Tensor v = variable(x), y = sum(f(v));
    backward(y)[v].eval();
  };
  const long factorised = calls_of([&] { svd(tall); }), with_vectors = calls_of([&] { eigh(square); });
  EXPECT_EQ(calls_of([&] { differentiated(svdvals, tall); }), factorised);
  EXPECT_EQ(calls_of([&] { differentiated(eigvalsh, square); }), with_vectors);
  EXPECT_EQ(calls_of([&] {
              const auto [x, residuals, rank, s] = least_squares(tall, right);
              EXPECT_EQ(rank.item<std::int64_t>(), 6);
              near(x, lstsq(tall_here, right_here), "least squares");
              near(s, svdvals(tall_here), "their singular values");
            }),
            factorised);
  const Tensor bad = cast(where(eye(4, {}, DType::bool_), std::numeric_limits<double>::infinity(), 1.0), dtype).eval();
  const Tensor two = stack({cast(eye(4), dtype), bad}, 0).eval();
  EXPECT_EQ(message_of([&] { return eigh(two.to(kGpu)).first; }), message_of([&] { return eigh(two).first; }));
  EXPECT_EQ(message_of([&] { return std::get<1>(svd(two.to(kGpu))); }),
            message_of([&] { return std::get<1>(svd(two)); }));
  near(qr(two.to(kGpu)).second, qr(two).second, "R of infinities");
}

INSTANTIATE_TEST_SUITE_P(Of, FactorisationsOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
