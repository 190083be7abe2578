// SPDX-License-Identifier: MIT
// searchsorted: the number of elements of a sorted line before a value, by bisection.
#include <algorithm>

#include "calls/order.h"
#include "core/parallel.h"
#include "cpu/library/ops.h"
#include "cpu/library/order_keys.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

constexpr int kSearchesTogether = 16;  // searches side by side: their loads are independent

// For `count` values, at most kSearchesTogether. All searches take the same steps, so no branch depends on an
// element.
template <bool kRight, class T>
void search_some(const T* line, std::int64_t line_step, std::int64_t n, const T* values, std::int64_t values_step,
                 int count, std::int64_t* out) {
  Key<T> key[kSearchesTogether];
  std::int64_t at[kSearchesTogether] = {};
  for (int j = 0; j < count; ++j) key[j] = rising_key(values[j * values_step]);
  const auto is_before = [&](std::int64_t i, Key<T> k) {
    const Key<T> here = rising_key(line[i * line_step]);
    return kRight ? here <= k : here < k;
  };
  std::int64_t left = n;
  for (; left > 1; left -= left / 2) {
    const std::int64_t half = left / 2;
    for (int j = 0; j < count; ++j) at[j] += is_before(at[j] + half - 1, key[j]) ? half : 0;
  }
  for (int j = 0; j < count; ++j) out[j] = at[j] + (is_before(at[j], key[j]) ? 1 : 0);
}

}  // namespace

void run_searchsorted(const LibraryCall& call) {
  const View &sorted = call.inputs[0], &values = call.inputs[1];
  const int axis = values.shape.rank() - 1;
  const std::int64_t n = sorted.shape[axis], m = values.shape[axis], total = values.shape.numel();
  if (total == 0) return;
  auto* const out = static_cast<std::int64_t*>(call.outputs[0].data);
  if (n == 0) return std::fill_n(out, total, 0), void();
  constexpr std::int64_t kSearchPiece = 4096;  // values
  const std::int64_t pieces = (m + kSearchPiece - 1) / kSearchPiece, lines = total / m;
  with_type(values.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_for(lines * pieces, [&](std::int64_t task) {
      const std::int64_t line = task / pieces, first = task % pieces * kSearchPiece,
                         end = std::min(m, first + kSearchPiece);
      std::int64_t rest = line, at_sorted = 0, at_values = 0;
      for (int d = axis - 1; d >= 0; --d) {
        at_sorted += rest % values.shape[d] * sorted.strides[d];
        at_values += rest % values.shape[d] * values.strides[d];
        rest /= values.shape[d];
      }
      const T* const from = static_cast<const T*>(sorted.data) + at_sorted;
      const T* const wanted = static_cast<const T*>(values.data) + at_values;
      for (std::int64_t i = first; i < end; i += kSearchesTogether) {
        const auto search =
            options_as<SearchsortedCall>(call.attrs).right ? search_some<true, T> : search_some<false, T>;
        search(from, sorted.strides[axis], n, wanted + i * values.strides[axis], values.strides[axis],
               static_cast<int>(std::min<std::int64_t>(kSearchesTogether, end - i)), out + line * m + i);
      }
    });
  });
}

}  // namespace ebb::cpu
