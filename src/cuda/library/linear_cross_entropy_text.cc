// The kernels of linear_cross_entropy.cc: rows of logits become losses and gradients.
#include "cuda/library/linear_cross_entropy_text.h"

namespace ebb::cuda {

// A row of the chunk is row of(r) of the whole: rows of a side lie together, sides lie `side` rows apart.
const char* const kRowOf = R"cuda(
struct Rows {
  i64 first, begin, per_side, side;
};
EBB i64 row_of(const Rows& rows, i64 r) {
  const i64 at = rows.begin + r, s = quotient(at, rows.per_side);
  return rows.first + s * rows.side + (at - s * rows.per_side);
}
)cuda";

const char* const kTakeText = R"cuda(
struct Args {
  const T* x;
  T* block;
  i64 n, width, x_row, x_column;
  const i64* target;
  i64 target_step, ignore, put;
  Rows rows;
};
extern "C" __global__ void __launch_bounds__(256) take(const Args a) {
  EACH(i, a.n) {
    const i64 r = quotient(i, a.width), c = i - r * a.width, row = row_of(a.rows, r);
    const bool counts = a.target[row * a.target_step] != a.ignore;
    if (a.put) {
      put((T*)a.x + row * a.x_row + c, counts ? a.block[i] : T{});
    } else {
      put(a.block + i, counts ? a.x[row * a.x_row + c * a.x_column] : T{});
    }
  }
}
)cuda";

// T is how x and W are stored, A what is computed in. A block takes a row.
//   look           adds the bias, caps, makes the loss; leaves what the gradient needs in `seen`
//   differentiate  makes the gradient of the logits: in `narrow`, and in place where `keep` is set
const char* const kRowText = R"cuda(
struct Args {
  A* logits;
  T* narrow;
  f64* seen;  // per row of the chunk: peak, total, sum of weights
  A* losses;
  const i64* target;
  const A* cotangent;
  const A* bias;
  const A* weight;
  i64 count, classes, target_step, cotangent_step, bias_step, weight_step, ignore, look, differentiate, keep;
  f64 smoothing, z_loss, softcap;
  Rows rows;
  i64 cotangent_by_chunk;
  ErrorSlot* error;
  i64 step;
};
EBB f64 weight_of(const Args& a, i64 c) { return a.weight ? (f64)a.weight[c * a.weight_step] : 1.0; }
extern "C" __global__ void __launch_bounds__(256) finish_rows(const Args a) {
  __shared__ u64 shared[256];
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const i64 row = row_of(a.rows, r), y = a.target[row * a.target_step];
    A* const z = a.logits + r * a.classes;
    T* const narrow = a.narrow + r * a.classes;
    const bool inside = (u64)y < (u64)a.classes, counts = inside && y != a.ignore;
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.error, a.step, row, 0, bits_of(y));
    if (!counts) {
      if (a.look && threadIdx.x == 0) a.losses[row] = 0;
      for (i64 c = threadIdx.x; a.differentiate && c < a.classes; c += 256) {
        if (a.keep) z[c] = 0;
        narrow[c] = (T)0;
      }
      continue;
    }
    const f64 w = weight_of(a, y), spread_share = a.smoothing / (f64)a.classes;
    f64 peak = 0, total = 0, weights = (f64)a.classes;
    if (a.look) {
      f64 top = -infinity(), spread = 0, sum_of_weights = 0;
      for (i64 c = threadIdx.x; c < a.classes; c += 256) {
        A u = z[c];
        if (a.bias) u = u + a.bias[c * a.bias_step];
        if (a.softcap != 0) u = (A)a.softcap * TANH(u / (A)a.softcap);
        if (a.bias || a.softcap != 0) z[c] = u;
        top = larger(top, (f64)u);
        if (a.smoothing != 0) {
          const f64 here = weight_of(a, c);
          spread += here * (f64)u;
          sum_of_weights += here;
        }
      }
      top = over_block<Most>(top, shared);
      peak = is_finite(top) ? top : 0;
      if (a.smoothing != 0) {
        spread = over_block<Plus>(spread, shared);
        if (a.weight) weights = over_block<Plus>(sum_of_weights, shared);
      }
      for (i64 c = threadIdx.x; c < a.classes; c += 256) total += (f64)EXP(z[c] - (A)peak);
      total = over_block<Plus>(total, shared);
      if (threadIdx.x == 0) {
        const f64 lse = peak + log(total);
        f64 loss = (1 - a.smoothing) * w * (lse - (f64)z[y]);
        if (a.smoothing != 0) loss += spread_share * (weights * lse - spread);
        if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
        a.losses[row] = (A)loss;
        a.seen[3 * r] = peak;
        a.seen[3 * r + 1] = total;
        a.seen[3 * r + 2] = weights;
      }
      __syncthreads();  // z[y] is read before it becomes a gradient
    } else {
      peak = a.seen[3 * r];
      total = a.seen[3 * r + 1];
      weights = a.seen[3 * r + 2];
    }
    if (!a.differentiate) continue;
    const f64 g = a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : row) * a.cotangent_step] : 1.0;
    const f64 hit = (1 - a.smoothing) * w;
    f64 factor = hit + spread_share * weights;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    const A scale = (A)(g * factor / total), drop = (A)(g * hit);
    for (i64 c = threadIdx.x; c < a.classes; c += 256) {
      const A u = z[c];
      A d = EXP(u - (A)peak) * scale;
      if (a.smoothing != 0) d = d - (A)(g * spread_share * weight_of(a, c));
      if (c == y) d = d - drop;
      if (a.softcap != 0) d = d * ((A)1 - u / (A)a.softcap * (u / (A)a.softcap));
      if (a.keep) z[c] = d;
      narrow[c] = store(d);
    }
    __syncthreads();
  }
}
)cuda";

// The usual rows of bf16: no bias, cap or smoothing, and classes in eights. L is how the logits are stored, f32 or
// bf16. The gradient takes the place of its row of logits, from the front: of f32 it overwrites what was read half as
// far on, which a barrier a round makes sure of. Maximum and sum are made in one pass: a thread scales its sum when its
// maximum grows. All that is exponentiated here becomes bf16 or a sum whose error is a part in 2^22: see the quick
// functions.
const char* const kUsualRowText = R"cuda(
struct Args {
  L* logits;
  f64* seen;  // per row of the chunk: peak, total
  f32* losses;
  const i64* target;
  const f32* cotangent;
  const f32* weight;
  i64 count, classes, target_step, cotangent_step, weight_step, ignore, look, differentiate;
  f64 z_loss;
  Rows rows;
  i64 cotangent_by_chunk;
  ErrorSlot* error;
  i64 step;
};
EBB f32 logit(f32 x) { return x; }
EBB f32 logit(u16 x) { return from_bf16(x); }
EBB Pack<f32, 8> widened(const Pack<f32, 8>& x) { return x; }
EBB Pack<f32, 8> widened(const Pack<u16, 8>& x) {
  Pack<f32, 8> z;
#pragma unroll
  for (int j = 0; j < 8; ++j) z.set(j, logit(x.at(j)));
  return z;
}
EBB bool is_number(f32 x) { return fabsf(x) < (f32)infinity(); }
// Its row stays on chip between the two passes where `staged`; each thread reads there what it has written.
template <bool staged> EBB void usual_row(const Args& a, const i64 r, u64* shared, char* chip) {
  constexpr int kWarps = staged ? 16 : 8, step = kWarps * 256;
  const int classes = (int)a.classes;
  const i64 row = row_of(a.rows, r), y = a.target[row * a.target_step];
  const L* const z = a.logits + r * a.classes;
  u16* const narrow = (u16*)z;
  const bool inside = (u64)y < (u64)a.classes, counts = inside && y != a.ignore;
  if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.error, a.step, row, 0, bits_of(y));
  if (!counts) {
    if (a.look && threadIdx.x == 0) a.losses[row] = 0;
    Pack<u16, 8> nothing;
#pragma unroll
    for (int j = 0; j < 8; ++j) nothing.set(j, (u16)0);
    for (int c = threadIdx.x * 8; a.differentiate && c < classes; c += step) store_pack<8>(narrow + c, nothing, true, 8, false);
    return;
  }
  const f64 w = a.weight ? (f64)a.weight[y * a.weight_step] : 1.0;
  f64 peak = 0, total = 0;
  if (a.look) {
    const f32 own = logit(z[y]);  // before anybody writes
    f32 top = -(f32)infinity(), base = top, part = 0;
#pragma unroll 2
    for (int c = threadIdx.x * 8, slot = 0; c < classes; c += step, ++slot) {
      const Pack<L, 8> given = load_pack<8>(z + c, true, 8);
      if (staged) write_own(chip, slot, given);
      const Pack<f32, 8> q = widened(given);
      f32 most = top;
#pragma unroll
      for (int j = 0; j < 8; ++j) most = larger(most, q.at(j));
      top = most;
      const f32 next = is_number(top) ? top : 0.0f;
      f32 sum = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += quick_exp(q.at(j) - next);
      part = part * quick_exp(base - next) + sum;
      base = next;
    }
    const f64 highest = over_block<Most, kWarps>((f64)top, shared);
    peak = is_finite(highest) ? highest : 0;
    total = over_block<Plus, kWarps>((f64)part * (f64)quick_exp(base - (f32)peak), shared);
    if (threadIdx.x == 0) {
      const f64 lse = peak + log(total);
      f64 loss = w * (lse - (f64)own);
      if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
      a.losses[row] = (f32)loss;
      a.seen[2 * r] = peak;
      a.seen[2 * r + 1] = total;
    }
  } else {
    peak = a.seen[2 * r];
    total = a.seen[2 * r + 1];
  }
  if (!a.differentiate) return;
  const f64 g = a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : row) * a.cotangent_step] : 1.0;
  f64 factor = w;
  if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
  const f32 scale = (f32)(g * factor / total), drop = (f32)(g * w), from = (f32)peak;
  const int hit = (int)y;
  const auto put = [&](int c, const Pack<f32, 8>& q) {
    Pack<u16, 8> d;
#pragma unroll
    for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale);
    if ((unsigned)(hit - c) < 8) {
#pragma unroll
      for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale - (c + j == hit ? drop : 0.0f));
    }
    store_pack<8>(narrow + c, d, true, 8, false);
  };
  if (staged) {
    for (int c = threadIdx.x * 8, slot = 0; c < classes; c += step, ++slot) put(c, widened(read_own<L>(chip, slot)));
    return;
  }
  int c = threadIdx.x * 8;
  Pack<f32, 8> next = widened(load_pack<8>(z + (c < classes ? c : 0), true, 8));
  for (int first = 0; first < classes; first += step, c += step) {
    const Pack<f32, 8> q = next;
    next = widened(load_pack<8>(z + (c + step < classes ? c + step : 0), true, 8));
    __syncthreads();  // the logits that this round writes over are read
    if (c < classes) put(c, q);
  }
}
extern "C" __global__ void __launch_bounds__(256) usual_rows(const Args a) {
  __shared__ u64 shared[256];
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    usual_row<false>(a, r, shared, nullptr);
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(512, 2) staged_rows(const Args a) {
  __shared__ u64 shared[512];
  DYNAMIC_SHARED(chip);
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    usual_row<true>(a, r, shared, chip);
    __syncthreads();
  }
}
)cuda";

// Sums of the columns of a chunk's gradient, added to what the chunks before left.
const char* const kBiasText = R"cuda(
struct Args { const A* z; f64* totals; T* out; i64 count, classes, first, last; };
extern "C" __global__ void __launch_bounds__(256) add_columns(const Args a) {
  EACH(c, a.classes) {
    f64 total = a.first ? 0 : a.totals[c];
    for (i64 r = 0; r < a.count; ++r) total += (f64)a.z[r * a.classes + c];
    a.totals[c] = total;
    if (a.last) a.out[c] = store((A)total);
  }
}
)cuda";

}  // namespace ebb::cuda
