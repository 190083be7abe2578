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

// A row's target, and what its loss is multiplied with. After a struct Args.
const char* const kTargetText = R"cuda(
struct Target {
  i64 row, y;
  bool inside, counts;
  __device__ __forceinline__ Target(const Args& a, i64 r) : row(row_of(a.rows, r)), y(a.target[row * a.target_step]) {
    inside = (u64)y < (u64)a.classes;
    counts = inside && y != a.ignore;
  }
  __device__ __forceinline__ void check(const Args& a) const {
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.error, a.step, row, 0, bits_of(y));
  }
  __device__ __forceinline__ f64 weight(const Args& a) const {
    return a.weight && counts ? (f64)a.weight[y * a.weight_step] : 1.0;
  }
};
)cuda";

// The usual rows of bf16: no bias, cap or smoothing, and classes in eights. L is how the logits are stored, f32 or
// bf16. The gradient takes the place of its row of logits, from the front. Maximum and sum are made in one pass: a
// thread scales its sum when its maximum grows. All that is exponentiated here becomes bf16 or a sum whose error is a
// part in 2^22: see the quick functions.
const char* const kUsualArgs = R"cuda(
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
)cuda";
const char* const kUsualRowText = R"cuda(
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
// Maximum and sum of exponentials of what a thread has seen, the sum relative to `base`.
struct Seen {
  f32 top, base, part;
  __device__ __forceinline__ Seen() : top(-(f32)infinity()), base(-(f32)infinity()), part(0) {}
  __device__ __forceinline__ void add(const Pack<f32, 8>& q) {
#pragma unroll
    for (int j = 0; j < 8; ++j) top = larger(top, q.at(j));
    const f32 next = is_number(top) ? top : 0.0f;
    f32 sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += quick_exp(q.at(j) - next);
    part = part * quick_exp(base - next) + sum;
    base = next;
  }
};
EBB void put_loss(const Args& a, i64 r, const Target& t, f64 peak, f64 total, f32 own) {
  const f64 w = t.weight(a), lse = peak + log(total);
  f64 loss = w * (lse - (f64)own);
  if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
  a.losses[t.row] = (f32)loss;
  a.seen[2 * r] = peak;
  a.seen[2 * r + 1] = total;
}
// The gradient of eight logits from column c on.
struct Gradient {
  f32 scale, drop, from;
  int hit;
  __device__ __forceinline__ Gradient(const Args& a, i64 r, const Target& t, f64 peak, f64 total) {
    const f64 g = a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : t.row) * a.cotangent_step] : 1.0;
    const f64 w = t.weight(a);
    f64 factor = w;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    scale = (f32)(g * factor / total), drop = (f32)(g * w), from = (f32)peak;
    hit = (int)t.y;
  }
  __device__ __forceinline__ void put(u16* narrow, int c, const Pack<f32, 8>& q) const {
    Pack<u16, 8> d;
#pragma unroll
    for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale);
    if ((unsigned)(hit - c) < 8) {
#pragma unroll
      for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale - (c + j == hit ? drop : 0.0f));
    }
    store_pack<8>(narrow + c, d, true, 8, false);
  }
};

// Rows that do not fit on chip are read twice. A gradient of f32 logits overwrites what was read half as far on, which a
// barrier a round makes sure of.
extern "C" __global__ void __launch_bounds__(256) usual_rows(const Args a) {
  constexpr int kStep = 256 * 8;
  __shared__ u64 shared[256];
  const int classes = (int)a.classes;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const Target t(a, r);
    const L* const z = a.logits + r * a.classes;
    u16* const narrow = (u16*)z;
    t.check(a);
    if (!t.counts) {
      if (a.look && threadIdx.x == 0) a.losses[t.row] = 0;
      for (int c = threadIdx.x * 8; a.differentiate && c < classes; c += kStep)
        store_pack<8>(narrow + c, all_of((u16)0), true, 8, false);
      continue;
    }
    f64 peak = 0, total = 0;
    if (a.look) {
      const f32 own = logit(z[t.y]);  // before anybody writes
      Seen seen;
#pragma unroll 2
      for (int c = threadIdx.x * 8; c < classes; c += kStep) seen.add(widened(load_pack<8>(z + c, true, 8)));
      const f64 highest = over_block<Most>((f64)seen.top, shared);
      peak = is_finite(highest) ? highest : 0;
      total = over_block<Plus>((f64)seen.part * (f64)quick_exp(seen.base - (f32)peak), shared);
      if (threadIdx.x == 0) put_loss(a, r, t, peak, total, own);
    } else {
      peak = a.seen[2 * r];
      total = a.seen[2 * r + 1];
    }
    if (!a.differentiate) continue;
    const Gradient gradient(a, r, t, peak, total);
    int c = threadIdx.x * 8;
    Pack<f32, 8> next = widened(load_pack<8>(z + (c < classes ? c : 0), true, 8));
    for (int first = 0; first < classes; first += kStep, c += kStep) {
      const Pack<f32, 8> q = next;
      next = widened(load_pack<8>(z + (c + kStep < classes ? c + kStep : 0), true, 8));
      __syncthreads();  // the logits that this round writes over are read
      if (c < classes) gradient.put(narrow, c, q);
    }
    __syncthreads();
  }
}

template <class T> EBB void copy_own(char* base, int slot, const T* from) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  must_be_aligned(from, 16);
  Words4* const at = own(base, slot, kChunks);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) copy16<kChunks == 1>(at + i * blockDim.x, (const Words4*)from + i);
}
// Rows that fit are read once, and memory never waits for arithmetic: as soon as a thread has read eight logits for the
// last time, it sends for those of the block's next row that take their place. Of a long row each thread has the first
// `held` eights in registers. A thread reads only what it has copied itself; the one barrier per row is that of its sum.
template <int threads, int held> EBB void staged_rows(const Args& a, char* chip) {
  constexpr int kStep = threads * 8, kWarps = threads / 32, kGroups = 4;
  __shared__ f32 tops[2][kWarps];  // a warp may be a row ahead of another
  __shared__ f64 sums[2][kWarps];
  const int classes = (int)a.classes, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int first = threadIdx.x * 8, slots = (classes + kStep - 1) / kStep - held;
  const int per_group = slots > 0 ? (slots + kGroups - 1) / kGroups : 0;
  const auto copy = [&](i64 r, int slot) {
    const int c = first + (held + slot) * kStep;
    if (r < a.count && c < classes) copy_own(chip, slot, (const L*)a.logits + r * a.classes + c);
  };
  const auto load = [&](i64 r, int k) {
    const int c = first + k * kStep;
    const bool there = r < a.count && c < classes;
    return load_pack<8>((const L*)a.logits + (there ? r * a.classes + c : 0), true, 8);
  };
  Pack<L, 8> kept[held + 1];
#pragma unroll
  for (int k = 0; k < held; ++k) kept[k] = load(blockIdx.x, k);
  for (int group = 0; group < kGroups; ++group) {
    for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) copy(blockIdx.x, slot);
    copies_begun();
  }
  int side = 0;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x, side ^= 1) {
    const Target t(a, r);
    const i64 next = r + gridDim.x;
    u16* const narrow = (u16*)(a.logits + r * a.classes);
    t.check(a);
    const f32 own = t.counts ? logit(a.logits[r * a.classes + t.y]) : 0.0f;  // before anybody writes
    Seen seen;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (first + k * kStep < classes) seen.add(widened(kept[k]));
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      group == 0 ? wait_for_copies<3>() : group == 1 ? wait_for_copies<2>() : group == 2 ? wait_for_copies<1>() : wait_for_copies<0>();
      for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) {
        if (first + (held + slot) * kStep < classes) seen.add(widened(read_own<L>(chip, slot)));
      }
    }
    const f32 top = over_lanes<Most>(seen.top), base = is_number(top) ? top : 0.0f;
    const f64 sum = over_lanes<Plus>((f64)(seen.part * quick_exp(seen.base - base)));
    if (lane == 0) tops[side][warp] = top, sums[side][warp] = sum;
    __syncthreads();
    const f32 of_warp = lane < kWarps ? tops[side][lane] : -(f32)infinity(), highest = over_lanes<Most>(of_warp);
    const f32 peak = is_number(highest) ? highest : 0.0f;
    const f32 further = (is_number(of_warp) ? of_warp : 0.0f) - peak;
    const f64 total = over_lanes<Plus>(lane < kWarps ? sums[side][lane] * (f64)quick_exp(further) : 0.0);
    if (threadIdx.x == 0) {
      if (t.counts) {
        put_loss(a, r, t, peak, total, own);
      } else {
        a.losses[t.row] = 0;
      }
    }
    const Gradient gradient(a, r, t, peak, total);
    const auto put = [&](int c, const Pack<L, 8>& given) {
      if (!a.differentiate || c >= classes) return;
      if (t.counts) {
        gradient.put(narrow, c, widened(given));
      } else {
        store_pack<8>(narrow + c, all_of((u16)0), true, 8, false);
      }
    };
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const Pack<L, 8> given = kept[k];
      kept[k] = load(next, k);
      put(first + k * kStep, given);
    }
    for (int group = 0; group < kGroups; ++group) {
      for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) {
        const int c = first + (held + slot) * kStep;
        if (c >= classes) break;
        put(c, read_own<L>(chip, slot));
        copy(next, slot);
      }
      copies_begun();
    }
  }
}
extern "C" __global__ void __launch_bounds__(512, 2) short_rows(const Args a) {
  DYNAMIC_SHARED(chip);
  staged_rows<512, 0>(a, chip);
}
extern "C" __global__ void __launch_bounds__(1024) long_rows(const Args a) {
  DYNAMIC_SHARED(chip);
  staged_rows<1024, 0>(a, chip);
}
extern "C" __global__ void __launch_bounds__(1024) longest_rows(const Args a) {
  DYNAMIC_SHARED(chip);
  staged_rows<1024, 3>(a, chip);
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
