// SPDX-License-Identifier: MIT
// cuBLASLt by plain loops over matrices stored by columns: the subset used by src/cuda/library/matmul.cc.
#include <atomic>
#include <cmath>
#include <cstring>

#include "cuda/emulated_device.h"
#include "cuda/library/cublaslt.h"
#include "numbers_by_dtype.h"

namespace ebb::testing {
namespace {

using namespace cuda;

struct Product {
  std::int32_t transposed[2] = {0, 0}, epilogue = 1, scale_modes[2] = {0, 0};
  std::int8_t quick = 0;
  bool tf32 = false;
  const void* bias = nullptr;
  const float* scales[2] = {nullptr, nullptr};
};
struct Matrix {
  int type;
  std::int64_t rows, columns, step;
  std::int32_t batches = 1;
  std::int64_t batch_step = 0;
};

DType dtype_of(int type) {
  return type == kR64 ? DType::f64 : type == kR32 ? DType::f32 : type == kR16 ? DType::f16 : DType::bf16;
}

bool is_fp8(int type) { return type == kRE4M3 || type == kRE5M2; }
double element(int type, const void* data, std::int64_t at) {
  if (!is_fp8(type)) return read_number(dtype_of(type), data, at);
  const int code = static_cast<const std::uint8_t*>(data)[at], mantissa = type == kRE4M3 ? 3 : 2;
  const int bias = type == kRE4M3 ? 7 : 15;
  const int exponent = (code & 127) >> mantissa, digits = code & ((1 << mantissa) - 1);
  const double x = exponent ? std::ldexp((1 << mantissa) + digits, exponent - bias - mantissa)
                            : std::ldexp(digits, 1 - bias - mantissa);
  return code & 128 ? -x : x;
}

// Rounded to the 11 digits of TF32.
double rounded(double x) {
  int exponent = 0;
  const double digits = std::frexp(x, &exponent);
  return std::isfinite(x) ? std::ldexp(std::nearbyint(std::ldexp(digits, 11)), exponent - 11) : x;
}

std::atomic<std::uint64_t> last_algorithm{0};
std::atomic<long> slow_products{0};

// On an H200 products of halves are several times slower unless contiguous sizes, and the summed one, are multiples of
// eight.
bool is_slow(std::int64_t k, const Matrix& a, const Matrix& b, const Matrix& d) {
  const std::int64_t of_d = d.type == kR32 ? 4 : 8;
  return (a.type == kR16 || a.type == kRB16) &&
         ((k | a.rows | b.rows | d.rows | a.step | b.step) % 8 != 0 || d.step % of_d != 0);
}

// Products that cuBLASLt supports: one type for both factors, and a result of that type or, for halves, f32. On an H200
// it adds no bias to the product of a column and a row of one element each; here to no product of a column and a row.
// FP8 is multiplied in multiples of 16, the sum along memory in both factors, not both e5m2; and here to no result of
// 32 columns, so that the fallback is tested, too.
Status supports(const Product& p, const Matrix& a, const Matrix& b, const Matrix& d) {
  if (is_fp8(a.type)) {
    const bool fits = p.transposed[0] && !p.transposed[1] && (a.rows | a.columns | d.step) % 16 == 0 &&
                      p.scale_modes[0] == kScalePerLine && p.scale_modes[1] == kScalePerLine && p.scales[0] &&
                      p.scales[1];
    return fits && is_fp8(b.type) && (a.type == kRE4M3 || b.type == kRE4M3) && d.rows != 32 ? 0 : kNotSupported;
  }
  const bool halves = a.type == kR16 || a.type == kRB16;
  if (a.type != b.type || (d.type != a.type && !(halves && d.type == kR32))) return kNotSupported;
  const std::int64_t k = p.transposed[0] ? a.rows : a.columns;
  return p.epilogue == kAddsBias && k == 1 ? kNotSupported : 0;
}

Status multiply(void*, void* product, const void* alpha, const void* a_data, void* a_layout, const void* b_data,
                void* b_layout, const void* beta, const void* c_data, void*, void* d_data, void* d_layout,
                const Algorithm* algorithm, void* workspace, std::size_t, Stream stream) {
  if (device_records()) return 0;
  if (algorithm->data[0] && !workspace) return 7;
  last_algorithm = algorithm->data[0];
  const Product p = *static_cast<const Product*>(product);
  const auto &a = *static_cast<const Matrix*>(a_layout), &b = *static_cast<const Matrix*>(b_layout),
             &d = *static_cast<const Matrix*>(d_layout);
  if (const Status status = supports(p, a, b, d)) return status;
  const std::int64_t k = p.transposed[0] ? a.rows : a.columns;
  if (k != (p.transposed[1] ? b.columns : b.rows) || d.rows != (p.transposed[0] ? a.columns : a.rows) ||
      d.columns != (p.transposed[1] ? b.rows : b.columns) || a.step < a.rows || b.step < b.rows || d.step < d.rows)
    return 7;
  if (is_slow(k, a, b, d)) ++slow_products;
  const bool wide = a.type == kR64;
  const double scale = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double keep = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  return in_stream(stream, [=] {
    const DeviceAccess access;
    for (std::int32_t batch = 0; batch < d.batches; ++batch) {
      for (std::int64_t j = 0; j < d.columns; ++j) {
        for (std::int64_t i = 0; i < d.rows; ++i) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const double x =
                element(a.type, a_data, batch * a.batch_step + (p.transposed[0] ? i * a.step + l : l * a.step + i));
            const double y =
                element(b.type, b_data, batch * b.batch_step + (p.transposed[1] ? l * b.step + j : j * b.step + l));
            sum += p.tf32 ? rounded(x) * rounded(y) : x * y;
          }
          if (p.scales[0]) sum *= static_cast<double>(p.scales[0][i]) * static_cast<double>(p.scales[1][j]);
          const std::int64_t at = batch * d.batch_step + j * d.step + i;
          sum = scale * sum + (keep != 0 ? keep * read_number(dtype_of(d.type), c_data, at) : 0);
          write_number(dtype_of(d.type), d_data, at,
                       p.epilogue == kAddsBias ? sum + read_number(dtype_of(d.type), p.bias, i) : sum);
        }
      }
    }
    return 0;
  });
}

}  // namespace

long emulated_slow_products() { return slow_products; }
int emulated_algorithm() { return static_cast<int>(last_algorithm); }

void install_emulated_lt() {
  Lt t;
  t.create = [](void** handle) {
    *handle = nullptr;
    return 0;
  };
  t.create_product = [](void** product, int computed, int) {
    *product = new Product{.tf32 = computed == kComputeTf32};
    return 0;
  };
  t.destroy_product = [](void* product) {
    delete static_cast<Product*>(product);
    return 0;
  };
  t.set_product = [](void* product, int what, const void* value, std::size_t bytes) {
    auto& p = *static_cast<Product*>(product);
    void* const to = what == kBias         ? static_cast<void*>(&p.bias)
                     : what == kEpilogue   ? &p.epilogue
                     : what == kQuickSums  ? static_cast<void*>(&p.quick)
                     : what >= kScaleModeA ? &p.scale_modes[what - kScaleModeA]
                     : what >= kScalesA    ? static_cast<void*>(&p.scales[what - kScalesA])
                                           : &p.transposed[what - kTransA];
    std::memcpy(to, value, bytes);
    return 0;
  };
  t.create_matrix = [](void** matrix, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t step) {
    *matrix = new Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), step};
    return 0;
  };
  t.destroy_matrix = [](void* matrix) {
    delete static_cast<Matrix*>(matrix);
    return 0;
  };
  t.set_matrix = [](void* matrix, int what, const void* value, std::size_t bytes) {
    auto& m = *static_cast<Matrix*>(matrix);
    std::memcpy(what == kBatchCount ? static_cast<void*>(&m.batches) : &m.batch_step, value, bytes);
    return 0;
  };
  t.create_preference = [](void** preference) {
    *preference = new int;
    return 0;
  };
  t.destroy_preference = [](void* preference) {
    delete static_cast<int*>(preference);
    return 0;
  };
  t.set_preference = [](void*, int, const void*, std::size_t) { return 0; };
  t.heuristic = [](void*, void*, void*, void*, void*, void*, void*, int, Heuristic* found, int* count) {
    found[0] = found[1] = {};
    found[1].algorithm.data[0] = found[1].workspace = 1;
    *count = 2;
    return 0;
  };
  t.check_algorithm = [](void*, void* product, void* a, void* b, void*, void* d, const Algorithm* algorithm,
                         Heuristic* seen) {
    *seen = {*algorithm, algorithm->data[0], 0, 0, {}};
    return supports(*static_cast<const Product*>(product), *static_cast<const Matrix*>(a),
                    *static_cast<const Matrix*>(b), *static_cast<const Matrix*>(d));
  };
  t.algorithm_number = [](const Algorithm*, int, void* value, std::size_t bytes, std::size_t* written) {
    std::memset(value, 0, bytes);
    *written = bytes;
    return 0;
  };
  t.multiply = multiply;
  install_lt(t);
}

}  // namespace ebb::testing
