// cumsum and cumprod: a thread per line. Floats are accumulated in f64 and each result is rounded once; integers wrap.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f64 S;  // of sums
constexpr bool kAdds = true, kFloating = true, kHalf = true;
#endif

template <class X>
EBB X next(X a, X b) {
  if constexpr (kFloating) {
    return kAdds ? a + b : a * b;
  } else {
    return kAdds ? sum(a, b) : product(a, b);
  }
}
EBB T narrow(S x) { return store(kHalf ? (A)to_odd((f64)x) : (A)x); }

extern "C" __global__ void __launch_bounds__(kThreads) scan(const ScanArgs a) {
  EACH(line, a.x.n) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    T* const out = (T*)a.out.data + at(a.out, line);
    S value = (S)a.start;
    for (i64 i = 0; i < a.length; ++i) {
      value = next(value, (S)load(x[i * a.x_step]));
      out[i * a.out_step] = narrow(value);
    }
  }
}

}  // namespace ebb::cuda
