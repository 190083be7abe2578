// SPDX-License-Identifier: MIT
// cuSOLVER by LAPACK: the subset used by src/cuda/library/linalg.cc and decompositions.cc.
#include <algorithm>
#include <atomic>
#include <vector>

#include "cuda/emulated_device.h"
#include "cuda/library/cusolver.h"

#define EBB_LAPACK(T, s)                                                                                               \
  void s##potrf_(const char*, const int*, T*, const int*, int*, std::size_t);                                          \
  void s##getrf_(const int*, const int*, T*, const int*, int*, int*);                                                  \
  void s##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*,          \
                 std::size_t);                                                                                         \
  void s##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                    \
  void s##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);                  \
  void s##syev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, std::size_t,           \
                std::size_t);                                                                                          \
  void s##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, \
                 T*, const int*, int*, std::size_t, std::size_t);
extern "C" {
EBB_LAPACK(float, s)
EBB_LAPACK(double, d)
void openblas_set_num_threads(int);
}

namespace ebb::testing {
namespace {

using namespace cuda;
using namespace cuda::cusolver;

template <class T>
struct Lapack;
#define EBB_OF_TYPE(T, s)                    \
  template <>                                \
  struct Lapack<T> {                         \
    static constexpr auto potrf = s##potrf_; \
    static constexpr auto getrf = s##getrf_; \
    static constexpr auto getrs = s##getrs_; \
    static constexpr auto geqrf = s##geqrf_; \
    static constexpr auto orgqr = s##orgqr_; \
    static constexpr auto syev = s##syev_;   \
    static constexpr auto gesvd = s##gesvd_; \
  };
EBB_OF_TYPE(float, s)
EBB_OF_TYPE(double, d)

constexpr int kWorkspace = 3;  // nonzero, so that forgetting the workspace shows
std::atomic<Stream> stream{nullptr};
std::atomic<long> solver_calls{0};

template <class F>
Status on_stream(const F& f) {
  if (device_records()) return 0;
  ++solver_calls;
  return in_stream(stream, [=] {
    const DeviceAccess access;
    f();
    return 0;
  });
}

template <class T>
void eigenvectors(int uplo, int n, T* a, int step, T* w, int* info) {
  const int size = std::max(1, 3 * n);
  std::vector<T> work(static_cast<std::size_t>(size));
  Lapack<T>::syev("V", uplo == kLower ? "L" : "U", &n, a, &step, w, work.data(), &size, info, 1, 1);
}
// Stores V by columns.
template <class T>
void singular_vectors(int m, int n, T* a, int step, T* s, T* u, int u_step, T* v, int v_step, int* info) {
  const int k = std::min(m, n), size = std::max(1, 5 * (m + n));
  std::vector<T> work(static_cast<std::size_t>(size)), vt(static_cast<std::size_t>(k) * static_cast<std::size_t>(n));
  Lapack<T>::gesvd("S", "S", &m, &n, a, &step, s, u, &u_step, vt.data(), &k, work.data(), &size, info, 1, 1);
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < n; ++j) v[i * v_step + j] = vt[static_cast<std::size_t>(j * k + i)];
  }
}

template <class T>
OfType of_type() {
  using L = Lapack<T>;
  openblas_set_num_threads(1);  // threads of its own may not touch the emulated device's memory
  OfType t;
  t.potrf_size = t.getrf_size = [](void*, int, int, void*, int, int* size) { return *size = kWorkspace, 0; };
  t.geqrf_size = t.potrf_size;
  t.potrf = [](void*, int uplo, int n, void* a, int step, void* work, int size, int* info) {
    if (!work || size != kWorkspace) return 7;
    return on_stream([=] { L::potrf(uplo == kLower ? "L" : "U", &n, static_cast<T*>(a), &step, info, 1); });
  };
  t.potrf_batched = [](void*, int uplo, int n, void** matrices, int step, int* info, int count) {
    return on_stream([=] {
      for (int i = 0; i < count; ++i)
        L::potrf(uplo == kLower ? "L" : "U", &n, static_cast<T*>(matrices[i]), &step, info + i, 1);
    });
  };
  t.getrf = [](void*, int m, int n, void* a, int step, void* work, int* order, int* info) {
    if (!work) return 7;
    return on_stream([=] { L::getrf(&m, &n, static_cast<T*>(a), &step, order, info); });
  };
  t.getrs = [](void*, int trans, int n, int k, const void* a, int a_step, const int* order, void* b, int b_step,
               int* info) {
    return on_stream([=] {
      L::getrs(trans ? "T" : "N", &n, &k, static_cast<const T*>(a), &a_step, order, static_cast<T*>(b), &b_step, info,
               1);
    });
  };
  t.geqrf = [](void*, int m, int n, void* a, int step, void* tau, void* work, int size, int* info) {
    if (!work || size != kWorkspace) return 7;
    return on_stream([=] {
      const int own = std::max(1, n);
      std::vector<T> memory(static_cast<std::size_t>(own));
      L::geqrf(&m, &n, static_cast<T*>(a), &step, static_cast<T*>(tau), memory.data(), &own, info);
    });
  };
  t.orgqr_size = [](void*, int, int, int, const void*, int, const void*, int* size) { return *size = kWorkspace, 0; };
  t.orgqr = [](void*, int m, int n, int k, void* a, int step, const void* tau, void* work, int size, int* info) {
    if (!work || size != kWorkspace) return 7;
    return on_stream([=] {
      const int own = std::max(1, n);
      std::vector<T> memory(static_cast<std::size_t>(own));
      L::orgqr(&m, &n, &k, static_cast<T*>(a), &step, static_cast<const T*>(tau), memory.data(), &own, info);
    });
  };
  t.syevd_size = [](void*, int, int, int, const void*, int, const void*, int* size) { return *size = kWorkspace, 0; };
  t.syevd = [](void*, int, int uplo, int n, void* a, int step, void* w, void* work, int size, int* info) {
    if (!work || size != kWorkspace) return 7;
    return on_stream([=] { eigenvectors(uplo, n, static_cast<T*>(a), step, static_cast<T*>(w), info); });
  };
  t.syevj_size = [](void*, int, int, int, const void*, int, const void*, int* size, void* options, int) {
    return *size = kWorkspace, options ? 0 : 7;
  };
  t.syevj = [](void*, int, int uplo, int n, void* a, int step, void* w, void* work, int size, int* info, void* options,
               int count) {
    if (!work || size != kWorkspace || !options) return 7;
    return on_stream([=] {
      for (int i = 0; i < count; ++i)
        eigenvectors(uplo, n, static_cast<T*>(a) + i * n * step, step, static_cast<T*>(w) + i * n, info + i);
    });
  };
  t.gesvdj_size = [](void*, int, int, int, int, const void*, int, const void*, const void*, int, const void*, int,
                     int* size, void* options) { return *size = kWorkspace, options ? 0 : 7; };
  t.gesvdj = [](void*, int, int econ, int m, int n, void* a, int step, void* s, void* u, int u_step, void* v,
                int v_step, void* work, int size, int* info, void* options) {
    if (!work || size != kWorkspace || !options || econ != 1) return 7;
    return on_stream([=] {
      singular_vectors(m, n, static_cast<T*>(a), step, static_cast<T*>(s), static_cast<T*>(u), u_step,
                       static_cast<T*>(v), v_step, info);
    });
  };
  // U and V are square here.
  t.gesvdj_batched_size = [](void*, int, int m, int n, const void*, int, const void*, const void*, int, const void*,
                             int, int* size, void* options,
                             int) { return *size = kWorkspace, options && m <= 32 && n <= 32 ? 0 : 7; };
  t.gesvdj_batched = [](void*, int, int m, int n, void* a, int step, void* s, void* u, int u_step, void* v, int v_step,
                        void* work, int size, int* info, void* options, int count) {
    if (!work || size != kWorkspace || !options || m > 32 || n > 32 || u_step < m || v_step < n) return 7;
    return on_stream([=] {
      for (int i = 0; i < count; ++i)
        singular_vectors(m, n, static_cast<T*>(a) + i * n * step, step, static_cast<T*>(s) + i * std::min(m, n),
                         static_cast<T*>(u) + i * m * u_step, u_step, static_cast<T*>(v) + i * n * v_step, v_step,
                         info + i);
    });
  };
  return t;
}

template <class T>
Cublas::OfType batches_of_type() {
  using L = Lapack<T>;
  Cublas::OfType t;
  t.getrf_batched = [](void*, int n, void* const* matrices, int step, int* order, int* info, int count) {
    return on_stream([=] {
      for (int i = 0; i < count; ++i) L::getrf(&n, &n, static_cast<T*>(matrices[i]), &step, order + i * n, info + i);
    });
  };
  t.getrs_batched = [](void*, int trans, int n, int k, const void* const* matrices, int a_step, const int* order,
                       void* const* right, int b_step, int* wrong, int count) {
    *wrong = 0;
    return on_stream([=] {
      for (int i = 0, info = 0; i < count; ++i)
        L::getrs(trans ? "T" : "N", &n, &k, static_cast<const T*>(matrices[i]), &a_step, order + i * n,
                 static_cast<T*>(right[i]), &b_step, &info, 1);
    });
  };
  return t;
}

constexpr std::size_t kBytes = 24, kHostBytes = 40;  // likewise

Status syev_batched_size(void*, void* params, int, int, std::int64_t, int, const void*, std::int64_t, int, const void*,
                         int, std::size_t* there, std::size_t* here, std::int64_t) {
  return *there = kBytes, *here = kHostBytes, params ? 0 : 7;
}
Status syev_batched(void*, void* params, int, int uplo, std::int64_t n, int type, void* a, std::int64_t step, int,
                    void* w, int, void* work, std::size_t there, void* own, std::size_t here, int* info,
                    std::int64_t count) {
  if (!params || !work || there != kBytes || !own || here != kHostBytes) return 7;
  return on_stream([=] {
    const auto size = static_cast<int>(n), apart = static_cast<int>(step);
    for (std::int64_t i = 0; i < count; ++i) {
      if (type == 1) {
        eigenvectors(uplo, size, static_cast<double*>(a) + i * n * step, apart, static_cast<double*>(w) + i * n,
                     info + i);
      } else {
        eigenvectors(uplo, size, static_cast<float*>(a) + i * n * step, apart, static_cast<float*>(w) + i * n,
                     info + i);
      }
    }
  });
}

}  // namespace

long emulated_solver_calls() { return solver_calls; }

const Cusolver& emulated_cusolver() {
  static const auto* const table = [] {
    auto* const t = new Cusolver;
    t->create = t->create_svd_options = t->create_eigen_options = [](void** made) { return *made = new int, 0; };
    t->create_params = t->create;
    t->syev_batched_size = syev_batched_size;
    t->syev_batched = syev_batched;
    t->set_stream = [](void*, Stream s) { return stream = s, 0; };
    t->f32 = of_type<float>();
    t->f64 = of_type<double>();
    return t;
  }();
  return *table;
}

const Cublas& emulated_cublas() {
  static const auto* const table = [] {
    auto* const t = new Cublas;
    t->create = [](void** made) { return *made = new int, 0; };
    t->set_stream = [](void*, Stream s) { return stream = s, 0; };
    t->f32 = batches_of_type<float>();
    t->f64 = batches_of_type<double>();
    return t;
  }();
  return *table;
}

}  // namespace ebb::testing
