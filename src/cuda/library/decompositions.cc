// SPDX-License-Identifier: MIT
// Eigenvalues, singular values and orthonormal columns by cuSOLVER: small matrices all at once by Jacobi's rotations if
// it has them, larger ones for eigenvalues, others one after the other. Where neither pays off, the host is faster.
#include <algorithm>

#include "cuda/library/kernels.h"
#include "cuda/library/solver.h"

namespace ebb::cuda {
namespace {

constexpr int kJacobiRows = 32;  // up to which cuSOLVER takes many matrices at a time

// Columns [first, first + length) of the packed result, for all matrices: those of `from`, [count, columns, length].
void pack(Gpu& gpu, const View& out, std::int64_t first, const View& from) {
  View to = out;
  to.data = element_at(out, first);
  to.shape = from.shape;
  copy_elements(gpu, to, from);
}

class Decomposed {
 public:
  Decomposed(Gpu& gpu, const Solver& solver, const View& a, const View& out)
      : gpu_(gpu),
        solver_(solver),
        of_(solver.of(a.dtype)),
        out_(out),
        count_(a.shape[0]),
        n_(static_cast<int>(a.shape[1])),
        m_(static_cast<int>(a.shape[2])) {
    a_ = workspace(gpu, a.dtype, a.shape, keep_[0], kName);
    copy_elements(gpu, a_, a);
    info_ = workspace(gpu, DType::i32, Shape{count_}, keep_[1], kName);
  }

  void eigh(bool together) {
    const View w = room({count_, n_}, 2);
    int size = 0;
    if (together) {
      const auto count = static_cast<int>(count_);
      check_solver(of_.syevj_size(solver_.handle(), cusolver::kVectors, cusolver::kLower, n_, a_.data, n_, w.data,
                                  &size, solver_.eigen_options(), count),
                   "cusolverDn syevjBatched_bufferSize");
      const View work = room({size}, 3);
      check_solver(of_.syevj(solver_.handle(), cusolver::kVectors, cusolver::kLower, n_, a_.data, n_, w.data, work.data,
                             size, elements<i32>(info_), solver_.eigen_options(), count),
                   "cusolverDn syevjBatched");
    } else if (count_ > 1 && solver_.params()) {
      const int type = a_.dtype == DType::f64 ? 1 : 0;  // CUDA_R_64F, CUDA_R_32F
      std::size_t there = 0, here = 0;
      check_solver(
          solver_.table().syev_batched_size(solver_.handle(), solver_.params(), cusolver::kVectors, cusolver::kLower,
                                            n_, type, a_.data, n_, type, w.data, type, &there, &here, count_),
          "cusolverDnXsyevBatched_bufferSize");
      const View work = workspace(gpu_, DType::u8, Shape{static_cast<std::int64_t>(there)}, keep_[3], kName);
      host_work_.resize(here);
      check_solver(solver_.table().syev_batched(solver_.handle(), solver_.params(), cusolver::kVectors,
                                                cusolver::kLower, n_, type, a_.data, n_, type, w.data, type, work.data,
                                                there, host_work_.data(), here, elements<i32>(info_), count_),
                   "cusolverDnXsyevBatched");
    } else {
      check_solver(
          of_.syevd_size(solver_.handle(), cusolver::kVectors, cusolver::kLower, n_, a_.data, n_, w.data, &size),
          "cusolverDn syevd_bufferSize");
      const View work = room({size}, 3);
      for (std::int64_t i = 0; i < count_; ++i)
        check_solver(of_.syevd(solver_.handle(), cusolver::kVectors, cusolver::kLower, n_, matrix(a_, i), n_,
                               matrix(w, i), work.data, size, elements<i32>(info_) + i),
                     "cusolverDn syevd");
    }
    pack(gpu_, out_, 0, reshaped(w, {count_, n_, 1}));
    pack(gpu_, out_, 1, a_);
  }

  // Those taken one after the other are turned so that they have more rows than columns: as one of 300 rows, a matrix
  // of 450 by 300 took 19 ms, and PyTorch, which does not turn it, 10.5.
  void svd(bool together) {
    const int k = std::min(m_, n_);
    const bool turned = !together && m_ < n_;
    const int rows = turned ? n_ : m_, columns = turned ? m_ : n_;
    View a = a_;
    if (turned) {
      a = room({count_, columns, rows}, 6);
      copy_elements(gpu_, a, transposed(a_));
    }
    const View s = room({count_, k}, 2);
    const View u = room({count_, together ? rows : k, rows}, 3), v = room({count_, together ? columns : k, columns}, 4);
    int size = 0;
    if (together) {
      const auto count = static_cast<int>(count_);
      check_solver(of_.gesvdj_batched_size(solver_.handle(), cusolver::kVectors, rows, columns, a.data, rows, s.data,
                                           u.data, rows, v.data, columns, &size, solver_.svd_options(), count),
                   "cusolverDn gesvdjBatched_bufferSize");
      const View work = room({size}, 5);
      check_solver(
          of_.gesvdj_batched(solver_.handle(), cusolver::kVectors, rows, columns, a.data, rows, s.data, u.data, rows,
                             v.data, columns, work.data, size, elements<i32>(info_), solver_.svd_options(), count),
          "cusolverDn gesvdjBatched");
    } else {
      check_solver(of_.gesvdj_size(solver_.handle(), cusolver::kVectors, 1, rows, columns, a.data, rows, s.data, u.data,
                                   rows, v.data, columns, &size, solver_.svd_options()),
                   "cusolverDn gesvdj_bufferSize");
      const View work = room({size}, 5);
      for (std::int64_t i = 0; i < count_; ++i)
        check_solver(of_.gesvdj(solver_.handle(), cusolver::kVectors, 1, rows, columns, matrix(a, i), rows,
                                matrix(s, i), matrix(u, i), rows, matrix(v, i), columns, work.data, size,
                                elements<i32>(info_) + i, solver_.svd_options()),
                     "cusolverDn gesvdj");
    }
    pack(gpu_, out_, 0, part_of(turned ? v : u, 1, 0, k));
    pack(gpu_, out_, m_, reshaped(s, {count_, k, 1}));
    pack(gpu_, out_, m_ + 1, part_of(turned ? u : v, 1, 0, k));
  }

  void qr() {
    const View tau = room({count_, n_}, 2);
    int size = 0, other = 0;
    check_solver(of_.geqrf_size(solver_.handle(), m_, n_, a_.data, m_, &size), "cusolverDn geqrf_bufferSize");
    check_solver(of_.orgqr_size(solver_.handle(), m_, n_, n_, a_.data, m_, tau.data, &other),
                 "cusolverDn orgqr_bufferSize");
    const View work = room({std::max(size, other)}, 3);
    for (std::int64_t i = 0; i < count_; ++i)
      check_solver(of_.geqrf(solver_.handle(), m_, n_, matrix(a_, i), m_, matrix(tau, i), work.data, size,
                             elements<i32>(info_) + i),
                   "cusolverDn geqrf");
    pack(gpu_, out_, m_, part_of(a_, 2, 0, n_));
    for (std::int64_t i = 0; i < count_; ++i)
      check_solver(of_.orgqr(solver_.handle(), m_, n_, n_, matrix(a_, i), m_, matrix(tau, i), work.data, other,
                             elements<i32>(info_) + i),
                   "cusolverDn orgqr");
    pack(gpu_, out_, 0, a_);
  }

  void verdicts(std::vector<int>& all) const { gpu_.to_host(all.data(), info_.data, all.size() * sizeof(int)); }

 private:
  static constexpr const char* kName = "a factorisation";

  View room(const Shape& shape, int which) { return workspace(gpu_, a_.dtype, shape, keep_[which], kName); }
  // For consecutive matrices or rows.
  static std::byte* matrix(const View& v, std::int64_t i) { return element_at(v, i * v.strides[0]); }

  Gpu& gpu_;
  const Solver& solver_;
  const cusolver::OfType& of_;
  const View& out_;
  const std::int64_t count_;
  const int n_, m_;
  View a_, info_;
  BufferPtr keep_[7];
  std::vector<std::byte> host_work_;  // kept until the verdicts are read
};

}  // namespace

bool run_decomposition(Gpu& gpu, Decomposition kind, const View& a, const View& out, std::vector<int>& verdicts) {
  const std::int64_t few = std::min(a.shape[1], a.shape[2]), many = std::max(a.shape[1], a.shape[2]);
  const bool together = kind != Decomposition::qr && a.shape[0] > 1 && many <= kJacobiRows;
  const bool small = few < gpu.model().decomposed_rows,
             many_eigenvectors = kind == Decomposition::eigh && a.shape[0] > 1;
  if (!together && small && !many_eigenvectors) return false;
  const Solver solver(gpu);
  if (!solver || (!together && small && !solver.params())) return false;
  Decomposed made(gpu, solver, a, out);
  if (kind == Decomposition::eigh) {
    made.eigh(together);
  } else if (kind == Decomposition::svd) {
    made.svd(together);
  } else {
    made.qr();
  }
  made.verdicts(verdicts);
  return true;
}

}  // namespace ebb::cuda
