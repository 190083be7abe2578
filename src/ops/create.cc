// SPDX-License-Identifier: MIT
#include "ebb/ops/create.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/format_error.h"
#include "core/random.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"

namespace ebb {
namespace {

// 0, 1, 2, ...: no memory, generated where it is used.
Tensor iota(std::int64_t count, std::int64_t start = 0, std::int64_t step = 1) {
  Payload payload;
  payload.integer = start;
  payload.step = step;
  return make_leaf(Op::iota, DType::i64, {count}, payload);
}

// Every call takes the next operation number of the thread's random state.
Tensor uniform(const Shape& shape, DType dtype) {
  RandomState& state = random_state();
  Payload payload;
  payload.seed = state.seed;
  payload.operation = state.next_operation++;
  return make_leaf(Op::random_uniform, dtype, shape, payload);
}

void require_real(const char* op, DType dtype) {
  require(is_floating(dtype), Error::Kind::type, "{}: needs a floating dtype, got {}", op, name(dtype));
}

}  // namespace

// ---- constants ------------------------------------------------------------------------------------------------------

Tensor full(const Shape& shape, Scalar value, std::optional<DType> dtype) {
  return number("full", value, dtype.value_or(common_dtype("full", {value})), shape);
}
Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype()); }
Tensor full_like(const Tensor& x, Scalar value) { return full(x.shape(), value, x.dtype()); }

// ---- ramps ----------------------------------------------------------------------------------------------------------

Tensor arange(Scalar end) { return arange(0, end); }

Tensor arange(Scalar start, Scalar end, Scalar step, std::optional<DType> dtype) {
  const bool real =
      start.kind() == Scalar::Kind::real || end.kind() == Scalar::Kind::real || step.kind() == Scalar::Kind::real;
  require(step.real() != 0 && std::isfinite(start.real()) && std::isfinite(end.real()) && std::isfinite(step.real()),
          "arange: start {}, end {} and step {} must be finite, and the step not 0", start.real(), end.real(),
          step.real());
  if (!real) {
    const std::int64_t s = step.integer();
    const std::int64_t from = s > 0 ? start.integer() : end.integer(), to = s > 0 ? end.integer() : start.integer();
    std::int64_t way = 0;
    require(!__builtin_sub_overflow(to, from, &way) && way >= 0 && s != std::numeric_limits<std::int64_t>::min(),
            "arange: a step of {} does not lead from {} to {}", s, start.integer(), end.integer());
    const std::int64_t stride = s > 0 ? s : -s;
    return cast(iota(way / stride + (way % stride != 0), start.integer(), s), dtype.value_or(DType::i64));
  }
  const double count = std::ceil((end.real() - start.real()) / step.real());
  require(count >= 0 && count < 9e18, "arange: a step of {} does not lead from {} to {}", step.real(), start.real(),
          end.real());
  // start + i·step in f64, rounded once to the dtype.
  const Tensor i = cast(iota(static_cast<std::int64_t>(count)), DType::f64);
  return cast(i * step.real() + start.real(), dtype.value_or(DType::f32));
}

// From the nearer end, in f64, so that both ends are exact:  start + i·s  or  end − (n−1−i)·s,  s = (end−start)/(n−1)
Tensor linspace(double start, double end, std::int64_t count, DType dtype) {
  require(count >= 0, "linspace: the count must not be negative, got {}", count);
  require_real("linspace", dtype);
  if (count <= 1) return full({count}, start, dtype);
  const double step = (end - start) / static_cast<double>(count - 1);
  const Tensor i = cast(iota(count), DType::f64), back = cast(iota(count, count - 1, -1), DType::f64);
  return cast(where(i < back, start + i * step, end - back * step), dtype);
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype) {
  const std::int64_t n = columns.value_or(rows);
  require(rows >= 0 && n >= 0, "eye: sizes must not be negative, got {} and {}", rows, n);
  // Loops of machine code compare floats, where these can count; i64 takes twice as long as i32.
  const std::int64_t most = std::max(rows, n);
  const DType counted = most < std::int64_t{1} << 24   ? DType::f32
                        : most < std::int64_t{1} << 31 ? DType::i32
                                                       : DType::i64;
  return cast(reshape(cast(iota(rows), counted), {rows, 1}) == reshape(cast(iota(n), counted), {1, n}), dtype);
}

// ---- random ---------------------------------------------------------------------------------------------------------

Tensor rand(const Shape& shape, DType dtype) {
  require_real("rand", dtype);
  if (!is_half(dtype)) return uniform(shape, dtype);
  // Rounding to a half could give 1; truncating to its 11 (bf16: 8) bits cannot.
  const double bits = dtype == DType::f16 ? 2048 : 256;
  return cast(floor(uniform(shape, DType::f32) * bits) * (1 / bits), dtype);
}

// Box–Muller: sqrt(−2 log(1 − u₁))·cos(2π u₂) is normal for uniform u₁, u₂ in [0, 1).
Tensor randn(const Shape& shape, DType dtype) {
  require_real("randn", dtype);
  const DType wide = compute_dtype(dtype);
  const Tensor u1 = uniform(shape, wide), u2 = uniform(shape, wide);
  return cast(sqrt(-2 * log(1 - u1)) * cos(2 * M_PI * u2), dtype);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype) {
  require(low < high, "randint: low = {} must be below high = {}", low, high);
  const double range = static_cast<double>(high) - static_cast<double>(low);
  require(range < 9007199254740992.0, "randint: more than 2^53 values from {} to {}", low, high);
  Tensor u = uniform(shape, DType::f64);
  // A uniform number has 32 bits; wide ranges take 20 more from a second one.
  if (range > 4096) u = u + floor(uniform(shape, DType::f64) * 1048576.0) * std::ldexp(1.0, -52);
  return cast(cast(floor(u * range), DType::i64) + low, dtype);
}

Tensor bernoulli(const Tensor& p) {
  require_real("bernoulli", p.dtype());
  const Tensor wide = widen(p);
  const Tensor chance = check(wide, logical_and(wide >= 0, wide <= 1), "bernoulli: a probability must lie in [0, 1]");
  return cast(uniform(p.shape(), wide.dtype()) < chance, p.dtype());
}

Tensor bernoulli(const Shape& shape, double p, DType dtype) {
  require(p >= 0 && p <= 1, "bernoulli: the probability must lie in [0, 1], got {}", p);
  return cast(uniform(shape, DType::f64) < p, dtype);
}

Tensor rand_like(const Tensor& x) { return rand(x.shape(), x.dtype()); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), x.dtype()); }
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high) {
  return randint(low, high, x.shape(), x.dtype());
}

// ---- data -----------------------------------------------------------------------------------------------------------

Tensor from_bytes(const void* data, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  require(data != nullptr || bytes == 0, "from_data: no memory was given for shape {}", shape);
  BufferPtr buffer = BufferPtr::allocate(bytes, "from_data");
  if (bytes > 0) std::memcpy(buffer.data(), data, bytes);
  const Tensor here = make_data(dtype, shape, std::move(buffer));
  const Device device = default_device();
  return device == Device{} ? here : here.to(device).eval();
}

void require_count(std::int64_t count, const Shape& shape) {
  require(count == shape.numel(), "from_data: {} elements were given for shape {}, which has {}", count, shape,
          shape.numel());
}

Tensor from_data(const std::vector<bool>& data, const Shape& shape) {
  const std::vector<std::uint8_t> bytes(data.begin(), data.end());
  require_count(static_cast<std::int64_t>(bytes.size()), shape);
  return from_bytes(bytes.data(), DType::bool_, shape);
}

Tensor from_foreign(void* data, DType dtype, const Shape& shape, std::function<void()> release) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  BufferPtr buffer = BufferPtr::wrap(data, bytes, std::move(release));
  require(data != nullptr || bytes == 0, "from_foreign: no memory was given for shape {}", shape);
  return make_data(dtype, shape, std::move(buffer));
}

Tensor tensor(Scalar value, std::optional<DType> dtype) { return full({}, value, dtype); }

namespace {

template <class From, class To>
Tensor stored(const std::vector<From>& values, const Shape& shape) {
  std::vector<To> converted;
  converted.reserve(values.size());
  for (From v : values) converted.push_back(static_cast<To>(v));
  return from_data(converted, shape);
}

}  // namespace

Tensor tensor_from(const std::vector<double>& reals, const Shape& shape, DType dtype) {
  if (dtype == DType::f32) return stored<double, float>(reals, shape);
  const Tensor wide = from_data(reals, shape);
  return dtype == DType::f64 ? wide : cast(wide, dtype).eval();
}

Tensor tensor_from(const std::vector<std::int64_t>& integers, const Shape& shape, DType dtype) {
  const Tensor wide = from_data(integers, shape);
  return dtype == DType::i64 ? wide : cast(wide, dtype).eval();
}

}  // namespace ebb
