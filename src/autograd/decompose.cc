// SPDX-License-Identifier: MIT
#include "ebb/ops/decompose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "autograd/factors.h"
#include "backend/backend.h"
#include "core/blas.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "ebb/autograd.h"
#include "ebb/backward/linalg.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"
#include "ops/determinants.h"

// Fortran's symbols, exported by libopenblas. The trailing lengths of character arguments are part of gfortran's
// calling convention.
extern "C" {
void ssyevd_(const char* jobz, const char* uplo, const int* n, float* a, const int* lda, float* w, float* work,
             const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
void sgesdd_(const char* jobz, const int* m, const int* n, float* a, const int* lda, float* s, float* u, const int* ldu,
             float* vt, const int* ldvt, float* work, const int* lwork, int* iwork, int* info, std::size_t);
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork, int* info,
             std::size_t);
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* tau, float* work, const int* lwork,
             int* info);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda, const float* tau, float* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau, double* work,
             const int* lwork, int* info);
}

// A factorisation with several results is one function of a matrix: its results are concatenated in one tensor, so that
// one rule sees all their cotangents.
namespace ebb {
namespace {

// LAPACK's functions of f32 and of f64.
template <class T>
struct Lapack;
template <>
struct Lapack<float> {
  static constexpr auto syevd = ssyevd_;
  static constexpr auto gesdd = sgesdd_;
  static constexpr auto geqrf = sgeqrf_;
  static constexpr auto orgqr = sorgqr_;
};
template <>
struct Lapack<double> {
  static constexpr auto syevd = dsyevd_;
  static constexpr auto gesdd = dgesdd_;
  static constexpr auto geqrf = dgeqrf_;
  static constexpr auto orgqr = dorgqr_;
};

void require_matrices(const char* op, const Tensor& a) {
  require(is_floating(a.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(a.dtype()));
  require(a.rank() >= 2, "{}: needs matrices, got shape {}", op, a.shape());
}

constexpr int kNotFinite = -1000;  // distinct from LAPACK's own verdicts

// A workspace size as LAPACK returns it, in T, which may have been rounded down.
template <class T>
int workspace_size(T asked) {
  return static_cast<int>(std::ceil(std::nextafter(asked, std::numeric_limits<T>::max())));
}

// Runs factor.run(matrix, results) on every matrix, both column-major, results with `rows` rows; in f32 or f64 like a.
// The matrices of a batch are shared among threads; the error is that of the first failing matrix.
template <class T, class Factor>
Tensor each_matrix_of(const char* op, const Tensor& a, std::int64_t rows, std::int64_t columns, const Factor& factor) {
  const std::int64_t m = a.size(-2), n = a.size(-1), batch = a.numel() / std::max<std::int64_t>(m * n, 1);
  std::vector<T> in = transpose(a, -2, -1).template to_vector<T>(),
                 out(static_cast<std::size_t>(batch * rows * columns));
  std::vector<int> verdicts(static_cast<std::size_t>(batch));
  constexpr std::int64_t kWork = 20000;  // elements cubed, approximately: work worth a task
  const std::int64_t group = std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, m * n * std::min(m, n)));
  parallel_for((batch + group - 1) / group, [&](std::int64_t task) {
    keep_blas_serial();
    for (std::int64_t b = task * group; b < std::min(batch, (task + 1) * group); ++b)
      verdicts[static_cast<std::size_t>(b)] = factor.run(in.data() + b * m * n, out.data() + b * rows * columns);
  });
  for (std::size_t b = 0; b < verdicts.size(); ++b) {
    require(verdicts[b] != kNotFinite, "{}: matrix {} of shape {} has NaNs or infinities", op, b, a.shape());
    require(verdicts[b] == 0, "{}: LAPACK did not converge ({})", op, verdicts[b]);
  }
  const Shape by_columns = a.shape().with(a.rank() - 2, columns).with(a.rank() - 1, rows);
  return transpose(from_data(out, by_columns).to(a.device()), -2, -1);
}

template <template <class> class Factor>
Tensor each_matrix(const char* op, const Tensor& a, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;  // LAPACK counts the elements of its workspaces in an int
  const std::int64_t m = a.size(-2), n = a.size(-1);
  require(a.numel() == 0 || m * n <= kMost, "{}: takes matrices of up to {} elements, got shape {}", op, kMost,
          a.shape());
  const int high = blas_size(m), wide = blas_size(n);
  if (a.dtype() == DType::f64) return each_matrix_of<double>(op, a, rows, columns, Factor<double>(high, wide));
  return each_matrix_of<float>(op, a, rows, columns, Factor<float>(high, wide));
}

// The same on a device that supports it; `of` are the elements that count.
std::optional<Tensor> each_matrix_there(Decomposition kind, const char* op, const Tensor& a, const Tensor& of,
                                        std::int64_t rows, std::int64_t columns) {
  if (a.device() == Device{} || a.numel() == 0) return std::nullopt;
  const std::int64_t m = a.size(-2), n = a.size(-1), count = a.numel() / (m * n);
  const std::vector<double> finite = cast(all(isfinite(of), {-2, -1}), DType::f32).to_vector<double>();
  const auto bad = std::find(finite.begin(), finite.end(), 0.0);
  require(kind == Decomposition::qr || bad == finite.end(), "{}: matrix {} of shape {} has NaNs or infinities", op,
          bad - finite.begin(), a.shape());
  const Tensor in = reshape(contiguous(transpose(a, -2, -1)), {count, n, m}).eval();
  const Storage& storage = in.node()->storage;
  const View given{storage.buffer.data() + storage.offset * static_cast<std::int64_t>(size_of(a.dtype())), a.dtype(),
                   in.shape(), contiguous_strides(in.shape())};
  const Shape packed{count, columns, rows};
  const BufferPtr memory =
      BufferPtr::allocate(static_cast<std::size_t>(packed.numel()) * size_of(a.dtype()), op, a.device());
  Backend& backend = backend_of(a.device());
  std::vector<int> verdicts(static_cast<std::size_t>(count));
  const FilledBy filled_by = storage.buffer.get()->filled_by;
  Run run = backend.begin({&filled_by, 1});
  bool made = false;
  try {
    made =
        backend.decompose(kind, given, {memory.data(), a.dtype(), packed, contiguous_strides(packed)}, verdicts, run);
  } catch (...) {
    backend.end(run);
    throw;
  }
  backend.end(run);
  if (!made) return std::nullopt;
  memory.get()->filled_by = {run.mark, run.step};
  for (const int verdict : verdicts) require(verdict == 0, "{}: the iteration did not converge ({})", op, verdict);
  Tensor y = transpose(
      reshape(make_data(a.dtype(), packed, memory), a.shape().with(a.rank() - 2, columns).with(a.rank() - 1, rows)), -2,
      -1);
  if (kind != Decomposition::qr) return y;
  if (bad != finite.end()) y = where(all(isfinite(of), {-2, -1}, true), y, std::numeric_limits<double>::quiet_NaN());
  return where(unsqueeze(arange(rows), 1) - m > arange(columns), 0, y);  // below R's diagonal
}

// LAPACK's iterations may never end on infinities.
template <class T>
bool is_finite(const T* a, std::int64_t count) {
  return std::all_of(a, a + count, [](T x) { return std::isfinite(x); });
}

Tensor rows_of(const Tensor& x, std::int64_t from, std::int64_t count) { return narrow(x, -2, from, count); }
Tensor columns_of(const Tensor& x, std::int64_t from, std::int64_t count) { return narrow(x, -1, from, count); }
Tensor T(const Tensor& x) { return transpose(x, -2, -1); }

// 1/(vⱼ − vᵢ) off the diagonal and 0 on it, for v [..., n].
Tensor reciprocal_differences(const Tensor& v) {
  const Tensor same = eye(v.size(-1), {}, DType::bool_);
  return where(same, 0, reciprocal(where(same, 1, unsqueeze(v, -2) - unsqueeze(v, -1))));
}

// ---- symmetric eigenvalues: [w; V], one row more than V
// --------------------------------------------------------------

template <class T>
struct SymmetricEigenvalues {
  int n, lwork = -1, liwork = -1;
  SymmetricEigenvalues(int, int size) : n(size) {  // queries the size of the workspaces
    T work = 0, none = 0;
    int iwork = 0, info = 0;
    if (n > 0) Lapack<T>::syevd("V", "L", &n, &none, &n, &none, &work, &lwork, &iwork, &liwork, &info, 1, 1);
    lwork = workspace_size(work);
    liwork = iwork;
  }
  int run(T* a, T* out) const {
    for (std::int64_t j = 0; j < n; ++j) {
      if (!is_finite(a + j * n + j, n - j)) return kNotFinite;  // the lower triangle
    }
    std::vector<T> w(static_cast<std::size_t>(n)), work(static_cast<std::size_t>(lwork));
    std::vector<int> iwork(static_cast<std::size_t>(liwork));
    int info = 0;
    Lapack<T>::syevd("V", "L", &n, a, &n, w.data(), work.data(), &lwork, iwork.data(), &liwork, &info, 1, 1);
    for (int j = 0; j < n; ++j) {
      *out++ = w[static_cast<std::size_t>(j)];
      out = std::copy_n(a + static_cast<std::int64_t>(j) * n, n, out);
    }
    return info;
  }
};

// Ā = V·(diag(w̄) + F∘(Vᵀ·V̄))·Vᵀ, F_ij = 1/(w_j − w_i); symmetric, as A is.
std::vector<Tensor> eigh_rule(const Tensor& grad, const Tensor& output, const std::vector<Tensor>&) {
  const std::int64_t n = output.size(-1);
  const Tensor w = select(output, -2, 0), v = rows_of(output, 1, n);
  const Tensor gw = select(grad, -2, 0), gv = rows_of(grad, 1, n);
  const Tensor inner = reciprocal_differences(w) * matmul(T(v), gv) + unsqueeze(gw, -1) * eye(n, {}, grad.dtype());
  const Tensor all = matmul(matmul(v, inner), T(v));
  return {0.5 * (all + T(all))};
}

Tensor packed_eigh(const char* op, const Tensor& a) {
  require_matrices(op, a);
  const std::int64_t n = a.size(-1);
  require(a.size(-2) == n, "{}: needs square matrices, got shape {}", op, a.shape());
  return custom_function(
      [&](const std::vector<Tensor>& x) {
        const auto there = each_matrix_there(Decomposition::eigh, op, x[0], tril(x[0]), n + 1, n);
        return there ? *there : each_matrix<SymmetricEigenvalues>(op, x[0], n + 1, n);
      },
      eigh_rule, {a});
}

// Values without their vectors: Ā = L·diag(v̄)·Rᵀ with the vectors in the columns of L and R, which has no poles where
// values are equal. The vectors keep their own history, for second derivatives.
Tensor values_alone(const Tensor& a, const Tensor& values, const Tensor& left, const Tensor& right) {
  return custom_function([&](const std::vector<Tensor>&) { return values; },
                         [left, right](const Tensor& grad, const Tensor&, const std::vector<Tensor>&) {
                           return std::vector<Tensor>{matmul(left * unsqueeze(grad, -2), T(right))};
                         },
                         {a});
}

// ---- singular values: [U; S; V], k columns
// ---------------------------------------------------------------------------

template <class T>
struct SingularValues {
  int m, n, k, lwork = -1;
  SingularValues(int rows, int columns) : m(rows), n(columns), k(std::min(rows, columns)) {
    T work = 0, none = 0;
    int iwork = 0, info = 0;
    if (k > 0) Lapack<T>::gesdd("S", &m, &n, &none, &m, &none, &none, &m, &none, &k, &work, &lwork, &iwork, &info, 1);
    lwork = workspace_size(work);
  }
  int run(T* a, T* out) const {
    if (!is_finite(a, static_cast<std::int64_t>(m) * n)) return kNotFinite;
    const auto high = static_cast<std::size_t>(m), wide = static_cast<std::size_t>(n),
               kept = static_cast<std::size_t>(k);
    std::vector<T> s(kept), u(high * kept), vt(kept * wide), work(static_cast<std::size_t>(lwork));
    std::vector<int> iwork(8 * kept);
    int info = 0;
    Lapack<T>::gesdd("S", &m, &n, a, &m, s.data(), u.data(), &m, vt.data(), &k, work.data(), &lwork, iwork.data(),
                     &info, 1);
    for (std::size_t j = 0; j < kept; ++j) {
      out = std::copy_n(u.data() + j * high, high, out);
      *out++ = s[j];
      for (std::size_t i = 0; i < wide; ++i) *out++ = vt[i * kept + j];
    }
    return info;
  }
};

// With F_ij = 1/(s_j² − s_i²) (Townsend, Differentiating the singular value decomposition, 2016):
//   Ā = U·(F∘(UᵀŪ − ŪᵀU)·S + S·F∘(VᵀV̄ − V̄ᵀV) + diag(s̄))·Vᵀ + (I − UUᵀ)·Ū·S⁻¹·Vᵀ + U·S⁻¹·V̄ᵀ·(I − VVᵀ)
std::vector<Tensor> svd_rule(const Tensor& grad, const Tensor& output, const std::vector<Tensor>& inputs) {
  const std::int64_t m = inputs[0].size(-2), n = inputs[0].size(-1), k = output.size(-1);
  const Tensor u = rows_of(output, 0, m), s = select(output, -2, m), v = rows_of(output, m + 1, n);
  const Tensor gu = rows_of(grad, 0, m), gs = select(grad, -2, m), gv = rows_of(grad, m + 1, n);
  const Tensor f = reciprocal_differences(square(s)), across = unsqueeze(s, -2), down = unsqueeze(s, -1);
  const Tensor of_u = matmul(T(u), gu), of_v = matmul(T(v), gv);
  const Tensor inner =
      f * (of_u - T(of_u)) * across + down * (f * (of_v - T(of_v))) + unsqueeze(gs, -1) * eye(k, {}, grad.dtype());
  Tensor all = matmul(matmul(u, inner), T(v));
  if (m > k) all = all + matmul((gu - matmul(u, of_u)) / across, T(v));
  if (n > k) all = all + matmul(u, T((gv - matmul(v, of_v)) / across));
  return {all};
}

Tensor packed_svd(const char* op, const Tensor& a) {
  require_matrices(op, a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  return custom_function(
      [&](const std::vector<Tensor>& x) {
        const std::int64_t rows = m + 1 + n, columns = std::min(m, n);
        const auto there = each_matrix_there(Decomposition::svd, op, x[0], x[0], rows, columns);
        return there ? *there : each_matrix<SingularValues>(op, x[0], rows, columns);
      },
      svd_rule, {a});
}

Tensor singular_values(const Tensor& a, const Tensor& packed) {
  const std::int64_t m = a.size(-2), n = a.size(-1);
  return values_alone(a, select(packed, -2, m), rows_of(packed, 0, m), rows_of(packed, m + 1, n));
}

// ---- Q and R of a matrix that is no wider than high: [Q; R]
// ------------------------------------------------------------

template <class T>
struct OrthonormalColumns {
  int m, n;
  OrthonormalColumns(int rows, int columns) : m(rows), n(columns) {}
  int run(T* a, T* out) const {
    const auto high = static_cast<std::size_t>(m), wide = static_cast<std::size_t>(n);
    std::vector<T> tau(wide), work(std::max<std::size_t>(1, 64 * wide)), r(wide * wide);
    const int lwork = static_cast<int>(work.size());
    int info = 0;
    if (!std::all_of(a, a + high * wide, [](T x) { return std::isfinite(x); })) {
      // LAPACK would lose part of it, depending on the dtype.
      for (std::size_t j = 0; j < wide; ++j) {
        out = std::fill_n(out, high + j + 1, std::numeric_limits<T>::quiet_NaN());
        out = std::fill_n(out, wide - j - 1, T(0));
      }
      return 0;
    }
    Lapack<T>::geqrf(&m, &n, a, &m, tau.data(), work.data(), &lwork, &info);
    if (info != 0) return info;
    for (std::size_t j = 0; j < wide; ++j) std::copy_n(a + j * high, j + 1, r.data() + j * wide);
    Lapack<T>::orgqr(&m, &n, &n, a, &m, tau.data(), work.data(), &lwork, &info);
    for (std::size_t j = 0; j < wide; ++j) {
      out = std::copy_n(a + j * high, high, out);
      out = std::copy_n(r.data() + j * wide, wide, out);
    }
    return info;
  }
};

// M = R·R̄ᵀ − Q̄ᵀ·Q, its lower triangle mirrored above the diagonal: Ā = (Q̄ + Q·mirrored)·R⁻ᵀ
std::vector<Tensor> qr_rule(const Tensor& grad, const Tensor& output, const std::vector<Tensor>& inputs) {
  const std::int64_t m = inputs[0].size(-2), n = inputs[0].size(-1);
  const Tensor q = rows_of(output, 0, m), r = rows_of(output, m, n);
  const Tensor gq = rows_of(grad, 0, m), gr = triu(rows_of(grad, m, n));
  const Tensor inner = matmul(r, T(gr)) - matmul(T(gq), q);
  const Tensor mirrored = tril(inner) + T(tril(inner, -1));
  // X·R⁻ᵀ = (R⁻¹·Xᵀ)ᵀ
  return {T(triangular_solve(r, T(gq + matmul(q, mirrored)), {.upper = true}))};
}

}  // namespace

Tensor inv(const Tensor& a) {
  if (a.rank() < 2 || a.size(-1) < kSharedFactors || a.size(-2) != a.size(-1) || !is_floating(a.dtype()))
    return inv_alone(a);
  return cast(inverse_by_factors(widen(a)), a.dtype());
}

Tensor det(const Tensor& a) {
  if (a.rank() < 2 || a.size(-1) < kSharedFactors || a.size(-2) != a.size(-1) || !is_floating(a.dtype()))
    return det_alone(a);
  return custom_function(
      [](const std::vector<Tensor>& x) { return cast(determinant_of(packed_factors(widen(x[0]))), x[0].dtype()); },
      [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& x) {
        return std::vector<Tensor>{det_backward(grad, x[0])};
      },
      {a});
}

Tensor logdet(const Tensor& a) {
  if (a.rank() < 2 || a.size(-1) < kSharedFactors || a.size(-2) != a.size(-1) || !is_floating(a.dtype()))
    return logdet_alone(a);
  return custom_function(
      [](const std::vector<Tensor>& x) {
        const auto [sign, size] = signed_logarithm_of(packed_factors(widen(x[0])));
        return cast(where(sign < 0, std::numeric_limits<double>::quiet_NaN(), size), x[0].dtype());
      },
      [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& x) {
        return std::vector<Tensor>{logdet_backward(grad, x[0])};
      },
      {a});
}

// y = log |det A|    dA = g·A⁻ᵀ, whatever the sign
std::pair<Tensor, Tensor> slogdet(const Tensor& a) {
  require_matrices("slogdet", a);
  const std::int64_t n = a.size(-1);
  require(a.size(-2) == n, "slogdet: needs square matrices, got shape {}", a.shape());
  const Tensor wide = widen(a);
  if (n == 0) return {cast(det(a), a.dtype()), cast(log(det(wide)), a.dtype())};
  const Tensor sign = signed_logarithm_of(packed_factors(wide)).first;
  const Tensor size =
      custom_function([](const std::vector<Tensor>& x) { return signed_logarithm_of(packed_factors(x[0])).second; },
                      [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& x) {
                        return std::vector<Tensor>{logdet_backward(grad, x[0])};
                      },
                      {wide});
  return {cast(sign, a.dtype()), cast(size, a.dtype())};
}

std::pair<Tensor, Tensor> eigh(const Tensor& a) {
  const Tensor packed = packed_eigh("eigh", widen(a));
  return {cast(select(packed, -2, 0), a.dtype()), cast(rows_of(packed, 1, a.size(-1)), a.dtype())};
}

Tensor eigvalsh(const Tensor& a) {
  const Tensor wide = widen(a), packed = packed_eigh("eigvalsh", wide), v = rows_of(packed, 1, a.size(-1));
  return cast(values_alone(wide, select(packed, -2, 0), v, v), a.dtype());
}

// A wide matrix [X, Y] has the Q of X, and R = [Qᵀ·X, Qᵀ·Y].
std::pair<Tensor, Tensor> qr(const Tensor& a) {
  require_matrices("qr", a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  if (n > m) {
    const Tensor wide = widen(a);
    const auto [q, r] = qr(columns_of(wide, 0, m));
    return {cast(q, a.dtype()), cast(cat({r, matmul(T(q), columns_of(wide, m, n - m))}, -1), a.dtype())};
  }
  const Tensor packed = custom_function(
      [&](const std::vector<Tensor>& x) {
        const auto there = each_matrix_there(Decomposition::qr, "qr", x[0], x[0], m + n, n);
        return there ? *there : each_matrix<OrthonormalColumns>("qr", x[0], m + n, n);
      },
      qr_rule, {widen(a)});
  return {cast(rows_of(packed, 0, m), a.dtype()), cast(rows_of(packed, m, n), a.dtype())};
}

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a) {
  const Tensor packed = packed_svd("svd", widen(a));
  const std::int64_t m = a.size(-2), n = a.size(-1);
  return {cast(rows_of(packed, 0, m), a.dtype()), cast(select(packed, -2, m), a.dtype()),
          cast(T(rows_of(packed, m + 1, n)), a.dtype())};
}

Tensor svdvals(const Tensor& a) {
  const Tensor wide = widen(a);
  return cast(singular_values(wide, packed_svd("svdvals", wide)), a.dtype());
}

namespace {

// Up to which multiple of the largest singular value the others count as 0.
double relative_cut(const Tensor& a, std::optional<double> rtol) {
  const double epsilon = a.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  return rtol.value_or(static_cast<double>(std::max(a.size(-2), a.size(-1))) * epsilon);
}

Tensor counts(const Tensor& s, double cut) { return s > cut * max(s, -1, true); }

// P = V·diag(1/s)·Uᵀ. Where the rank does not change (Golub and Pereyra, 1973),
//   dP = −P·dA·P + P·Pᵀ·dAᵀ·(I − A·P) + (I − P·A)·dAᵀ·Pᵀ·P
// so Ā = −Pᵀ·G·Pᵀ + (I − A·P)·Gᵀ·P·Pᵀ + Pᵀ·P·Gᵀ·(I − P·A) for the cotangent G of P.
Tensor pseudo_inverse(const Tensor& a, const Tensor& packed, double cut) {
  const std::int64_t m = a.size(-2), n = a.size(-1);
  return custom_function(
      [&](const std::vector<Tensor>&) {
        const Tensor s = select(packed, -2, m), kept = counts(s, cut);
        const Tensor inverse = where(kept, reciprocal(where(kept, s, 1)), 0);
        return matmul(rows_of(packed, m + 1, n) * unsqueeze(inverse, -2), T(rows_of(packed, 0, m)));
      },
      [](const Tensor& g, const Tensor& p, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
        const Tensor& a = inputs[0];
        const Tensor left = T(g) - matmul(a, matmul(p, T(g)));   // (I − A·P)·Gᵀ
        const Tensor right = T(g) - matmul(matmul(T(g), p), a);  // Gᵀ·(I − P·A)
        return {matmul(matmul(left, p), T(p)) + matmul(T(p), matmul(p, right)) - matmul(matmul(T(p), g), T(p))};
      },
      {a});
}

}  // namespace

Tensor pinv(const Tensor& a, std::optional<double> rtol) {
  require_matrices("pinv", a);
  if (a.numel() == 0) return T(a);
  const Tensor wide = widen(a);
  return cast(pseudo_inverse(wide, packed_svd("pinv", wide), relative_cut(a, rtol)), a.dtype());
}

LeastSquares least_squares(const Tensor& a, const Tensor& b, std::optional<double> rtol) {
  require_matrices("lstsq", a);
  const bool vector = b.rank() == a.rank() - 1;
  require(b.rank() >= 1 && b.size(vector ? -1 : -2) == a.size(-2),
          "lstsq: a matrix of shape {} and a right-hand side of shape {} do not fit", a.shape(), b.shape());
  const DType dtype = promote(a.dtype(), b.dtype());
  const Tensor wide = widen(cast(a, dtype)), right = widen(cast(b, dtype)), packed = packed_svd("lstsq", wide);
  const double cut = relative_cut(a, rtol);
  const Tensor columns = vector ? unsqueeze(right, -1) : right, s = singular_values(wide, packed);
  const Tensor x = a.numel() == 0 ? matmul(T(wide), columns) : matmul(pseudo_inverse(wide, packed, cut), columns);
  const auto in_shape_of_b = [&](const Tensor& y) { return cast(vector ? select(y, -1, 0) : y, dtype); };
  return {.solution = in_shape_of_b(x),
          .residuals = cast(sum(square(matmul(wide, x) - columns), -2), dtype),
          .rank = s.size(-1) == 0 ? sum(cast(s, DType::i64), -1) : sum(cast(counts(s, cut), DType::i64), -1),
          .singular_values = cast(s, dtype)};
}

Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rtol) {
  return least_squares(a, b, rtol).solution;
}

}  // namespace ebb
