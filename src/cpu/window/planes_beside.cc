// SPDX-License-Identifier: MIT
#include "cpu/window/planes_beside.h"

#include <type_traits>

#include "cpu/library/copy.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

template <class T>
constexpr RegType kReg = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;

template <class T>
T* scratch_of(std::vector<std::byte>& scratch, std::int64_t count) {
  scratch.resize(std::max(scratch.size(), static_cast<std::size_t>(count) * sizeof(T)));
  return reinterpret_cast<T*>(scratch.data());
}

}  // namespace

template <class T>
void load_beside(const View& v, std::int64_t first, std::int64_t many, T* to, std::int64_t pitch,
                 std::vector<std::byte>& scratch) {
  const std::int64_t channels = v.shape[1], height = v.shape[2], width = v.shape[3], elements = height * width;
  const bool as_it_is = v.dtype == dtype_of_type<T>::value;
  const LoadFn load = tile_kernels().load(v.dtype, kReg<T>);
  const auto offset = [&](std::int64_t plane) {
    return plane / channels * v.strides[0] + plane % channels * v.strides[1];
  };
  if (is_contiguous(v.shape, v.strides)) {
    const std::byte* from = element_at(v, offset(first));
    const T* dense = reinterpret_cast<const T*>(from);
    if (!as_it_is) {
      T* const wide = scratch_of<T>(scratch, many * elements);
      load(wide, from, 1, static_cast<std::size_t>(many * elements));
      dense = wide;
    }
    return window_kernels<T>().transpose(many, elements, dense, elements, to, pitch);
  }
  std::int64_t at[64];  // of each plane
  for (std::int64_t p = 0; p < many; ++p) at[p] = offset(first + p);
  with_element_size(v.dtype, [&](auto type) {
    using Raw = typename decltype(type)::type;
    Raw* const run = scratch_of<Raw>(scratch, many);
    for (std::int64_t k = 0; k < elements; ++k, to += pitch) {
      const Raw* from = static_cast<const Raw*>(v.data) + k / width * v.strides[2] + k % width * v.strides[3];
      for (std::int64_t p = 0; p < many; ++p) run[p] = from[at[p]];
      load(to, run, 1, static_cast<std::size_t>(many));
    }
  });
}

template <class T>
void store_beside(const View& v, std::int64_t first, std::int64_t many, const T* from, std::int64_t pitch,
                  std::vector<std::byte>& scratch) {
  const std::int64_t elements = v.shape[2] * v.shape[3];
  std::byte* const to = element_at(v, first * elements);
  const bool as_it_is = v.dtype == dtype_of_type<T>::value;
  T* const dense = as_it_is ? reinterpret_cast<T*>(to) : scratch_of<T>(scratch, many * elements);
  window_kernels<T>().transpose(elements, many, from, pitch, dense, elements);
  if (!as_it_is) tile_kernels().store(kReg<T>, v.dtype)(to, 1, dense, static_cast<std::size_t>(many * elements));
}

template void load_beside(const View&, std::int64_t, std::int64_t, float*, std::int64_t, std::vector<std::byte>&);
template void load_beside(const View&, std::int64_t, std::int64_t, double*, std::int64_t, std::vector<std::byte>&);
template void store_beside(const View&, std::int64_t, std::int64_t, const float*, std::int64_t,
                           std::vector<std::byte>&);
template void store_beside(const View&, std::int64_t, std::int64_t, const double*, std::int64_t,
                           std::vector<std::byte>&);

}  // namespace ebb::cpu
