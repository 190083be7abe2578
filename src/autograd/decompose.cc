#include "ebb/ops/decompose.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"

extern "C" {
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork, int* info,
             std::size_t);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau, double* work,
             const int* lwork, int* info);
}

// A factorisation with several results is one function of a matrix: its results are concatenated in one tensor, so that
// one rule sees all their cotangents.
namespace ebb {
namespace {

using Matrix = std::vector<double>;  // column-major, as in LAPACK

void require_matrices(const char* op, const Tensor& a) {
  require(is_floating(a.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(a.dtype()));
  require(a.rank() >= 2, "{}: needs matrices, got shape {}", op, a.shape());
}

// f(number, column-major matrix) returns the results column-major, with `rows` rows; in f32 or f64 like a.
template <class F>
Tensor each_matrix(const char* op, const Tensor& a, std::int64_t rows, std::int64_t columns, F f) {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;  // LAPACK counts the elements of its workspaces in an int
  const std::int64_t m = a.size(-2), n = a.size(-1), batch = a.numel() / std::max<std::int64_t>(m * n, 1);
  require(batch == 0 || m * n <= kMost, "{}: takes matrices of up to {} elements, got shape {}", op, kMost, a.shape());
  const std::vector<double> in = cast(transpose(a, -2, -1), DType::f64).to_vector<double>();
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(batch * rows * columns));
  for (std::int64_t b = 0; b < batch; ++b) {
    const Matrix found = f(b, Matrix(in.begin() + b * m * n, in.begin() + (b + 1) * m * n));
    out.insert(out.end(), found.begin(), found.end());
  }
  const Shape by_columns = a.shape().with(a.rank() - 2, columns).with(a.rank() - 1, rows);
  return cast(transpose(from_data(out, by_columns).to(a.device()), -2, -1), a.dtype());
}

void require_success(const char* op, int info) { require(info == 0, "{}: LAPACK did not converge ({})", op, info); }

// LAPACK's iterations may never end on infinities.
void require_finite(const char* op, bool finite, std::int64_t number, const Shape& shape) {
  require(finite, "{}: matrix {} of shape {} has NaNs or infinities", op, number, shape);
}
bool is_finite(const Matrix& a) {
  return std::all_of(a.begin(), a.end(), [](double x) { return std::isfinite(x); });
}
bool has_finite_lower_triangle(const Matrix& a, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      if (!std::isfinite(a[j * n + i])) return false;
    }
  }
  return true;
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

Matrix symmetric_eigenvalues(Matrix a, int n) {
  Matrix w(static_cast<std::size_t>(n)), work(1);
  std::vector<int> iwork(1);
  int info = 0, ask = -1;
  dsyevd_("V", "L", &n, a.data(), &n, w.data(), work.data(), &ask, iwork.data(), &ask, &info, 1, 1);
  int lwork = static_cast<int>(work[0]), liwork = iwork[0];
  work.resize(static_cast<std::size_t>(lwork));
  iwork.resize(static_cast<std::size_t>(liwork));
  dsyevd_("V", "L", &n, a.data(), &n, w.data(), work.data(), &lwork, iwork.data(), &liwork, &info, 1, 1);
  require_success("eigh", info);
  Matrix out;
  for (int j = 0; j < n; ++j) {
    out.push_back(w[static_cast<std::size_t>(j)]);
    const auto column = a.begin() + static_cast<std::ptrdiff_t>(j) * n;
    out.insert(out.end(), column, column + n);
  }
  return out;
}

// Ā = V·(diag(w̄) + F∘(Vᵀ·V̄))·Vᵀ, F_ij = 1/(w_j − w_i); symmetric, as A is.
std::vector<Tensor> eigh_rule(const Tensor& grad, const Tensor& output, const std::vector<Tensor>&) {
  const std::int64_t n = output.size(-1);
  const Tensor w = select(output, -2, 0), v = rows_of(output, 1, n);
  const Tensor gw = select(grad, -2, 0), gv = rows_of(grad, 1, n);
  const Tensor inner = reciprocal_differences(w) * matmul(T(v), gv) + unsqueeze(gw, -1) * eye(n, {}, grad.dtype());
  const Tensor all = matmul(matmul(v, inner), T(v));
  return {0.5 * (all + T(all))};
}

// ---- singular values: [U; S; V], k columns
// ---------------------------------------------------------------------------

Matrix singular_values(Matrix a, int m, int n) {
  const int k = std::min(m, n);
  const auto wide = static_cast<std::size_t>(n), kept = static_cast<std::size_t>(k);
  Matrix s(kept), u(static_cast<std::size_t>(m) * kept), vt(kept * wide), work(1);
  std::vector<int> iwork(8 * kept);
  int info = 0, lwork = -1;
  for (int turn = 0; turn < 2; ++turn) {  // queries the workspace size first
    dgesdd_("S", &m, &n, a.data(), &m, s.data(), u.data(), &m, vt.data(), &k, work.data(), &lwork, iwork.data(), &info,
            1);
    if (turn == 0) work.resize(static_cast<std::size_t>(lwork = static_cast<int>(work[0])));
  }
  require_success("svd", info);
  Matrix out;
  for (std::size_t j = 0; j < kept; ++j) {
    const auto column = u.begin() + static_cast<std::ptrdiff_t>(j) * m;
    out.insert(out.end(), column, column + m);
    out.push_back(s[j]);
    for (std::size_t i = 0; i < wide; ++i) out.push_back(vt[i * kept + j]);
  }
  return out;
}

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

Tensor packed_svd(const Tensor& a) {
  const std::int64_t m = a.size(-2), n = a.size(-1);
  return custom_function(
      [&](const std::vector<Tensor>& x) {
        return each_matrix("svd", x[0], m + 1 + n, std::min(m, n), [&](std::int64_t number, Matrix matrix) {
          require_finite("svd", is_finite(matrix), number, x[0].shape());
          return singular_values(std::move(matrix), static_cast<int>(m), static_cast<int>(n));
        });
      },
      svd_rule, {a});
}

// ---- Q and R of a matrix that is no wider than high: [Q; R]
// ------------------------------------------------------------

Matrix orthonormal_columns(Matrix a, int m, int n) {
  Matrix tau(static_cast<std::size_t>(n)), work(static_cast<std::size_t>(std::max(1, 64 * n)));
  const int lwork = static_cast<int>(work.size());
  int info = 0;
  dgeqrf_(&m, &n, a.data(), &m, tau.data(), work.data(), &lwork, &info);
  require_success("qr", info);
  Matrix q = a;
  dorgqr_(&m, &n, &n, q.data(), &m, tau.data(), work.data(), &lwork, &info);
  require_success("qr", info);
  Matrix out;
  for (int j = 0; j < n; ++j) {
    const auto start = static_cast<std::ptrdiff_t>(j) * m;
    const double* const column = a.data() + start;
    out.insert(out.end(), q.begin() + start, q.begin() + start + m);
    for (int i = 0; i < n; ++i) out.push_back(i <= j ? column[i] : 0);
  }
  return out;
}

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

// The sign is that of the matrix with its rows scaled to a largest element of 1, whose determinant does not overflow.
// With one row multiplied by it the determinant is positive, and has a logarithm.
std::pair<Tensor, Tensor> slogdet(const Tensor& a) {
  require_matrices("slogdet", a);
  const std::int64_t n = a.size(-1);
  require(a.size(-2) == n, "slogdet: needs square matrices, got shape {}", a.shape());
  const Tensor wide = widen(a);
  if (n == 0) return {cast(det(a), a.dtype()), cast(log(det(wide)), a.dtype())};
  Tensor sign_of_det;
  {
    NoHistory scope;
    const Tensor largest = max(abs(wide), -1, true);
    sign_of_det = sign(det(wide / where(largest == 0, 1, largest)));
  }
  const Tensor factor = where(sign_of_det < 0, -1.0, ones_like(sign_of_det));
  const Tensor first = arange(n) == 0;
  const Tensor turned = wide * where(unsqueeze(first, -1), unsqueeze(unsqueeze(factor, -1), -1), 1);
  return {cast(sign_of_det, a.dtype()), cast(logdet(turned), a.dtype())};
}

std::pair<Tensor, Tensor> eigh(const Tensor& a) {
  require_matrices("eigh", a);
  const std::int64_t n = a.size(-1);
  require(a.size(-2) == n, "eigh: needs square matrices, got shape {}", a.shape());
  const Tensor packed = custom_function(
      [&](const std::vector<Tensor>& x) {
        return each_matrix("eigh", x[0], n + 1, n, [&](std::int64_t number, Matrix m) {
          require_finite("eigh", has_finite_lower_triangle(m, static_cast<std::size_t>(n)), number, x[0].shape());
          return symmetric_eigenvalues(std::move(m), static_cast<int>(n));
        });
      },
      eigh_rule, {widen(a)});
  return {cast(select(packed, -2, 0), a.dtype()), cast(rows_of(packed, 1, n), a.dtype())};
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
        return each_matrix("qr", x[0], m + n, n, [&](std::int64_t, Matrix matrix) {
          return orthonormal_columns(std::move(matrix), static_cast<int>(m), static_cast<int>(n));
        });
      },
      qr_rule, {widen(a)});
  return {cast(rows_of(packed, 0, m), a.dtype()), cast(rows_of(packed, m, n), a.dtype())};
}

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a) {
  require_matrices("svd", a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  const Tensor packed = packed_svd(widen(a));
  return {cast(rows_of(packed, 0, m), a.dtype()), cast(select(packed, -2, m), a.dtype()),
          cast(T(rows_of(packed, m + 1, n)), a.dtype())};
}

namespace {

double epsilon(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

}  // namespace

// P = V·diag(1/s)·Uᵀ. Where the rank does not change (Golub and Pereyra, 1973),
//   dP = −P·dA·P + P·Pᵀ·dAᵀ·(I − A·P) + (I − P·A)·dAᵀ·Pᵀ·P
// so Ā = −Pᵀ·G·Pᵀ + (I − A·P)·Gᵀ·P·Pᵀ + Pᵀ·P·Gᵀ·(I − P·A) for the cotangent G of P.
Tensor pinv(const Tensor& a, std::optional<double> rtol) {
  require_matrices("pinv", a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  const double cut = rtol.value_or(static_cast<double>(std::max(m, n)) * epsilon(a.dtype()));
  if (a.numel() == 0) return T(a);
  const Tensor y = custom_function(
      [&](const std::vector<Tensor>& x) {
        const Tensor packed = packed_svd(x[0]), s = select(packed, -2, m);
        const Tensor counts = s > cut * max(s, -1, true);
        const Tensor inverse = where(counts, reciprocal(where(counts, s, 1)), 0);
        return matmul(rows_of(packed, m + 1, n) * unsqueeze(inverse, -2), T(rows_of(packed, 0, m)));
      },
      [](const Tensor& g, const Tensor& p, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
        const Tensor& a = inputs[0];
        const Tensor left = T(g) - matmul(a, matmul(p, T(g)));   // (I − A·P)·Gᵀ
        const Tensor right = T(g) - matmul(matmul(T(g), p), a);  // Gᵀ·(I − P·A)
        return {matmul(matmul(left, p), T(p)) + matmul(T(p), matmul(p, right)) - matmul(matmul(T(p), g), T(p))};
      },
      {widen(a)});
  return cast(y, a.dtype());
}

Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rtol) {
  require_matrices("lstsq", a);
  const bool vector = b.rank() == a.rank() - 1;
  require(b.rank() >= 1 && b.size(vector ? -1 : -2) == a.size(-2),
          "lstsq: a matrix of shape {} and a right-hand side of shape {} do not fit", a.shape(), b.shape());
  const DType dtype = promote(a.dtype(), b.dtype());
  const Tensor p = pinv(widen(a), rtol), right = widen(cast(b, dtype));
  return cast(vector ? select(matmul(p, unsqueeze(right, -1)), -1, 0) : matmul(p, right), dtype);
}

}  // namespace ebb
