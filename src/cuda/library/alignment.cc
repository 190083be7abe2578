// CTC and the transducer: a block per sample, whose threads share the states of a step (CTC) or the places of a
// diagonal (transducer); see the CPU's for the recursions. Numbers are m·2^(512·k), as there: cpu/fused/wide_range.h
// says why. α of every step is kept in memory for the gradient.
#include <fmt/format.h>

#include "core/format_error.h"
#include "cuda/library/kernels.h"
#include "graph/loss_calls.h"

namespace ebb::cuda {
namespace {

const char* const kSharedText = R"cuda(
struct Wide {
  f64 m, k, d;
};
EBB Wide none() { return {0, -1e9, 0}; }
EBB Wide one() { return {1, 0, 0}; }
EBB f64 beside(f64 k, f64 most) { return k == most ? 1.0 : k == most - 1 ? 7.458340731200207e-155 : 0.0; }
EBB Wide plus(const Wide& a, const Wide& b) {
  const f64 most = a.k > b.k ? a.k : b.k, fa = beside(a.k, most), fb = beside(b.k, most);
  return {a.m * fa + b.m * fb, most, a.d * fa + b.d * fb};
}
// y.d is the derivative of log y.
EBB Wide times(const Wide& a, const Wide& y) {
  const f64 p = a.m * y.m;
  const bool high = p >= 1.157920892373162e77, low = p < 8.636168555094445e-78;
  const f64 factor = high ? 7.458340731200207e-155 : low ? 1.3407807929942597e154 : 1.0;
  const f64 m = p * factor;
  return {m, p == 0 ? -1e9 : a.k + y.k + (high ? 1.0 : low ? -1.0 : 0.0), a.d * y.m * factor + m * y.d};
}
EBB Wide wide_exp(f64 x, f64 tangent) {
  f64 k = 0, rest = x;
  if (!is_finite(x)) {
    k = x < 0 ? -1e9 : 0;
  } else {
    k = floor(x / 354.89135644669197 + 0.5);
    rest = x - k * 354.89135644669197;
  }
  return {exp(rest), k, tangent};
}
EBB f64 scale_of(f64 k) { return k == 0 ? 1.0 : k == -1 ? 7.458340731200207e-155 : k == 1 ? 1.3407807929942597e154 : 0.0; }

struct Args {
  const T* x;
  const T* tangent;
  const i64* labels;
  const i64* input_lengths;
  const i64* label_lengths;
  const L* cotangent;
  L* losses;
  T* gradient;
  Wide* alpha;  // per sample: steps rows of states
  Wide* beta;   // of a transducer, as alpha
  char* near;   // of CTC where a sample is too long for the chip: state_bytes per state
  i64 steps, samples, classes, room, total_labels, joined, order, blank, zero_infinity;
  i64 x_t, x_n, x_c, tangent_t, tangent_n, tangent_c, x_u, tangent_u, label_n, label_i, input_step, length_step, cotangent_step;
  i64 chip_bytes, state_bytes;
  ErrorSlot* error;
  i64 step;
};
// Numbers of checks; the host has the same. Lengths come before labels, as positions.
enum { kSteps, kLength, kSum, kAll, kClass, kBlank };
EBB f64 element(const T* x, i64 at) { return (f64)load(x[at]); }

)cuda";

// What both kernels begin with: the sample's lengths and labels, checked.
const char* const kSampleText = R"cuda(
extern "C" __global__ void __launch_bounds__(256) align(const Args a) {
  __shared__ u64 shared[256];
  __shared__ i64 first_label, first_state;
  __shared__ i32 wrong;
  for (i64 n = blockIdx.x; n < a.samples; n += gridDim.x) {
    const i64 steps = a.input_lengths[n * a.input_step], length = a.label_lengths[n * a.length_step];
    __syncthreads();
    if (threadIdx.x == 0) {
      i64 before = 0;
      for (i64 i = 0; a.joined && i < n; ++i) before += a.label_lengths[i * a.length_step];
      first_label = a.joined ? before * a.label_i : n * a.label_n;
      first_state = a.joined ? 2 * before + n : n * (2 * a.room + 1);
      wrong = 1;
      if (steps < 0 || steps > a.steps) {
        complain(a.error, a.step, n, kSteps, bits_of(steps));
      } else if (length < 0 || length > a.room) {
        complain(a.error, a.step, n, kLength, bits_of(length));
      } else if (a.joined && (before < 0 || before + length > a.total_labels)) {
        complain(a.error, a.step, n, kSum, bits_of(before + length));
      } else if (a.joined && n == a.samples - 1 && before + length != a.total_labels) {
        complain(a.error, a.step, n, kAll, bits_of(before + length));
      } else {
        wrong = 0;
      }
    }
    __syncthreads();
    const i64* const labels = a.labels + first_label;
    bool complained = wrong;
    for (i64 i = threadIdx.x; !wrong && i < length; i += 256) {
      const i64 c = labels[i * a.label_i], at = a.samples + n * a.room + i;
      if ((u64)c < (u64)a.classes && c != a.blank) continue;
      complain(a.error, a.step, at, c == a.blank ? kBlank : kClass, bits_of(c));
      complained = true;
    }
    const bool bad = __syncthreads_or(complained), dual = a.order == 2, keep = a.order >= 1;
)cuda";

constexpr int kAhead = 4;  // steps whose probabilities are made together
// Bytes of a state on the chip: two rows of α or β, probabilities and α of the steps ahead, three numbers each; and
// half a share and half a label.
constexpr std::int64_t kStateBytes = (2 + 2 * kAhead) * 24 + 24;

// Two rows of α or β, probabilities and α of some steps ahead, shares and labels lie on the chip where they fit, so
// that a step waits for its neighbours and for nothing else.
const char* const kCtcText = R"cuda(
    DYNAMIC_SHARED(chip);
    struct Label {
      i64 c;
      i32 next;  // the next place of the same label; -1: none
      bool is_first, skips;
    };
    const i64 states = 2 * length + 1;  // of even number blanks, of odd number labels
    Wide* const alpha = a.alpha + first_state * a.steps;
    const bool fits = states * a.state_bytes <= a.chip_bytes;
    Wide* const rows = (Wide*)(fits ? chip : a.near + first_state * a.state_bytes);
    Wide *const ys = rows + 2 * states, *const alphas = ys + kAhead * states;
    f64* const shares = (f64*)(alphas + kAhead * states);
    Label* const places = (Label*)(shares + length);
    for (i64 i = threadIdx.x; i < length && !bad; i += 256) places[i].c = labels[i * a.label_i];
    __syncthreads();
    for (i64 i = threadIdx.x; i < length && !bad; i += 256) {
      const i64 c = places[i].c;
      // May it be reached from the label before it at once?
      places[i].skips = i > 0 && places[i - 1].c != c;
      i64 other = i - 1;
      while (other >= 0 && places[other].c != c) --other;
      places[i].is_first = other < 0;
      other = i + 1;
      while (other < length && places[other].c != c) ++other;
      places[i].next = other < length ? (i32)other : -1;
    }
    __syncthreads();
    const auto skips = [&](i64 state) { return (state & 1) && places[state >> 1].skips; };
    // Probabilities of the states at `kAhead` times from `t` on, up or down.
    const auto look_ahead = [&](i64 t, i64 up) {
      for (i64 s = threadIdx.x; s < states; s += 256) {
        const i64 c = s & 1 ? places[s >> 1].c : a.blank;
#pragma unroll
        for (int q = 0; q < kAhead; ++q) {
          const i64 at = t + up * q;
          if (at < 0 || at >= steps) continue;
          ys[q * states + s] = wide_exp(element(a.x, at * a.x_t + n * a.x_n + c * a.x_c),
                                        dual ? element(a.tangent, at * a.tangent_t + n * a.tangent_n + c * a.tangent_c) : 0);
        }
      }
    };
    for (i64 t = 0; t < steps && !bad; ++t) {
      const i64 q = t % kAhead;
      if (q == 0) look_ahead(t, 1);  // each thread reads what it wrote
      Wide* const now = rows + (t & 1) * states;
      const Wide* const last = rows + (~t & 1) * states;
      for (i64 s = threadIdx.x; s < states; s += 256) {
        Wide sum = none();
        if (t == 0) {
          if (s < 2) sum = one();
        } else {
          sum = last[s];
          if (s >= 1) sum = plus(sum, last[s - 1]);
          if (skips(s)) sum = plus(sum, last[s - 2]);
        }
        now[s] = times(sum, ys[q * states + s]);
        if (keep) alpha[t * states + s] = now[s];
      }
      __syncthreads();
    }
    Wide total = none();
    if (!bad && steps == 0) {
      if (length == 0) total = one();
    } else if (!bad) {
      const Wide* const end = rows + ((steps - 1) & 1) * states;
      total = end[states - 1];
      if (length > 0) total = plus(total, end[states - 2]);
    }
    const bool possible = total.m != 0;
    if (threadIdx.x == 0) {
      f64 value = dual ? (possible ? -(total.d / total.m) : 0)
                       : possible          ? -(log(total.m) + total.k * 354.89135644669197)
                       : a.zero_infinity ? 0
                                           : infinity();
      a.losses[n] = (L)value;
    }
    if (!keep) continue;
    for (i64 t = threadIdx.x >> 5; t < a.steps; t += 8) {
      for (i64 c = threadIdx.x & 31; c < a.classes; c += 32) a.gradient[(t * a.samples + n) * a.classes + c] = (T)0;
    }
    __syncthreads();
    if (!possible) continue;  // -log 0 has no slope to follow
    const f64 g = (f64)a.cotangent[n * a.cotangent_step], inverse = 1 / total.m, slope = total.d / total.m;
    for (i64 t = steps - 1; t >= 0; --t) {
      const i64 q = (steps - 1 - t) % kAhead;
      if (q == 0) {
        look_ahead(t + 1, -1);
        for (i64 s = threadIdx.x; s < states; s += 256) {
#pragma unroll
          for (int k = 0; k < kAhead; ++k) {
            if (t - k >= 0) alphas[k * states + s] = alpha[(t - k) * states + s];
          }
        }
        __syncthreads();
      }
      Wide* const now = rows + (t & 1) * states;
      const Wide *const next = rows + (~t & 1) * states, *const y = ys + q * states;
      f64 blanks = 0;
      for (i64 s = threadIdx.x; s < states; s += 256) {
        Wide sum = none();
        if (t == steps - 1) {
          if (s >= states - 2) sum = one();
        } else {
          sum = times(next[s], y[s]);
          if (s + 1 < states) sum = plus(sum, times(next[s + 1], y[s + 1]));
          if (s + 2 < states && skips(s + 2)) sum = plus(sum, times(next[s + 2], y[s + 2]));
        }
        now[s] = sum;
        const Wide here = alphas[q * states + s];
        const f64 factor = scale_of(here.k + sum.k - total.k) * inverse, m = here.m * sum.m * factor;
        const f64 share = dual ? (here.d * sum.m + here.m * sum.d) * factor - m * slope : m;
        if (s & 1) {
          shares[s >> 1] = share;
        } else {
          blanks += share;
        }
      }
      blanks = over_block<Plus>(blanks, shared);  // after it all shares are there
      T* const row = a.gradient + (t * a.samples + n) * a.classes;
      if (threadIdx.x == 0 && blanks != 0) row[a.blank] = narrow(-g * blanks);
      // The first place of a label adds up all of them, in order.
      for (i64 i = threadIdx.x; i < length; i += 256) {
        if (!places[i].is_first) continue;
        f64 sum = 0;
        for (i64 j = i; j >= 0; j = places[j].next) sum += shares[j];
        if (sum != 0) row[places[i].c] = narrow(-g * sum);
      }
      __syncthreads();
    }
  }
}
)cuda";

const char* const kTransducerText = R"cuda(
    const i64 width = length + 1;
    Wide* const alpha = a.alpha + n * a.steps * (a.room + 1);
    const auto probability = [&](i64 t, i64 u, i64 c) {
      return wide_exp(element(a.x, n * a.x_n + t * a.x_t + u * a.x_u + c * a.x_c),
                      dual ? element(a.tangent, n * a.tangent_n + t * a.tangent_t + u * a.tangent_u + c * a.tangent_c) : 0);
    };
    const i64 diagonals = bad || steps == 0 ? 0 : steps + length;
    for (i64 d = 0; d < diagonals; ++d) {
      for (i64 u = threadIdx.x; u <= length; u += 256) {
        const i64 t = d - u;
        if (t < 0 || t >= steps) continue;
        Wide x = d == 0 ? one() : none();
        if (t > 0) x = plus(x, times(alpha[(t - 1) * width + u], probability(t - 1, u, a.blank)));
        if (u > 0) x = plus(x, times(alpha[t * width + u - 1], probability(t, u - 1, labels[(u - 1) * a.label_i])));
        alpha[t * width + u] = x;
      }
      __syncthreads();
    }
    const Wide total =
        diagonals ? times(alpha[(steps - 1) * width + length], probability(steps - 1, length, a.blank)) : none();
    const bool possible = total.m != 0;
    if (threadIdx.x == 0) {
      const f64 value = dual ? (possible ? -(total.d / total.m) : 0)
                        : possible        ? -(log(total.m) + total.k * 354.89135644669197)
                        : a.zero_infinity ? 0
                                          : infinity();
      a.losses[n] = (L)value;
    }
    if (!keep) continue;
    T* const gradient = a.gradient + n * a.steps * (a.room + 1) * a.classes;
    for (i64 i = threadIdx.x; i < a.steps * (a.room + 1) * a.classes; i += 256) gradient[i] = (T)0;
    __syncthreads();
    if (!possible) continue;
    const f64 g = (f64)a.cotangent[n * a.cotangent_step], inverse = 1 / total.m, slope = total.d / total.m;
    Wide* const beta = a.beta + n * a.steps * (a.room + 1);
    const auto share = [&](const Wide& x, const Wide& y) {
      const f64 factor = scale_of(x.k + y.k - total.k) * inverse, m = x.m * y.m * factor;
      return dual ? (x.d * y.m + x.m * y.d) * factor - m * slope : m;
    };
    for (i64 d = diagonals - 1; d >= 0; --d) {
      for (i64 u = threadIdx.x; u <= length; u += 256) {
        const i64 t = d - u;
        if (t < 0 || t >= steps) continue;
        const Wide here = alpha[t * width + u];
        const Wide after = t < steps - 1 ? beta[(t + 1) * width + u] : u == length ? one() : none();
        T* const row = gradient + (t * (a.room + 1) + u) * a.classes;
        const Wide by_blank = times(after, probability(t, u, a.blank));
        row[a.blank] = narrow(-g * share(here, by_blank));
        Wide sum = by_blank;
        if (u < length) {
          const i64 c = labels[u * a.label_i];
          const Wide by_label = times(beta[t * width + u + 1], probability(t, u, c));
          row[c] = narrow(-g * share(here, by_label));
          sum = plus(sum, by_label);
        }
        beta[t * width + u] = sum;
      }
      __syncthreads();
    }
  }
}
)cuda";

void run_alignment(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const bool ctc = call.op == Op::ctc;
  const std::string name = ctc ? "ctc_loss" : "rnnt_loss";
  const AlignmentCall o = AlignmentCall::from(call.attrs);
  const View &x = call.inputs[0], &labels = call.inputs[1], &input_lengths = call.inputs[2],
             &label_lengths = call.inputs[3];
  const std::int64_t steps = x.shape[ctc ? 0 : 1], samples = x.shape[ctc ? 1 : 0], classes = x.shape[ctc ? 2 : 3];
  const bool joined = labels.shape.rank() == 1;
  const std::int64_t room = !ctc ? x.shape[2] - 1 : joined ? labels.shape[0] : labels.shape[1];
  // Of all samples and one step.
  const std::int64_t states = !ctc ? samples * (room + 1) : joined ? 2 * room + samples : samples * (2 * room + 1);
  if (samples == 0) {
    require(!joined || labels.shape[0] == 0, "{}: target_lengths add up to 0, but there are {} targets", name,
            labels.shape[0]);
    return;
  }
  const std::int64_t targets = labels.shape[0];
  const std::uint64_t step = mark.add_step([=](int check, std::int64_t position, std::uint64_t bits) {
    const auto number = static_cast<std::int64_t>(bits);
    const std::int64_t n = position < samples ? position : (position - samples) / room;
    const std::int64_t i = position < samples ? 0 : (position - samples) % room;
    switch (check) {
      case 0:
        return Error(Error::Kind::value,
                     fmt::format("{}: input_lengths[{}] = {} is outside [0, {}], the log-probabilities have {} steps",
                                 name, n, number, steps, steps));
      case 1:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths[{}] = {} is outside [0, {}]", name, n, number, room));
      case 2:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths up to [{}] add up to {}, but there are {} targets", name, n,
                                 number, targets));
      case 3:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths add up to {}, but there are {} targets", name, number, targets));
      case 4:
        return Error(Error::Kind::index,
                     fmt::format("{}: label {} of sample {} is {}, outside [0, {})", name, i, n, number, classes));
      default:
        return Error(
            Error::Kind::value,
            fmt::format("{}: label {} of sample {} is {}, the blank; targets must not hold it", name, i, n, number));
    }
  });
  BufferPtr keep_alpha, keep_beta, keep_near;
  const bool keep = o.order >= 1;
  View alpha;
  if (keep || !ctc)
    alpha = workspace(gpu, DType::f64, Shape{std::max<std::int64_t>(2, steps), states, 3}, keep_alpha, name.c_str());
  View beta, near;
  if (keep && !ctc)
    beta = workspace(gpu, DType::f64, Shape{std::max<std::int64_t>(2, steps), states, 3}, keep_beta, name.c_str());
  // Of joined labels only the sum of the lengths is known here.
  const std::int64_t longest = (2 * room + 1) * kStateBytes;
  const std::int64_t most = joined ? 64 << 10 : gpu.limits().shared - kSharedOfText;
  const std::int64_t chip = ctc ? std::min(longest, most) : 0;
  if (ctc && longest > chip) near = workspace(gpu, DType::u8, Shape{states * kStateBytes}, keep_near, name.c_str());
  const DType loss = call.outputs[0].dtype;
  const std::string text = view_text() + odd_text() + element_text(x.dtype) +
                           fmt::format("constexpr int kAhead = {};\n", kAhead) +
                           fmt::format("typedef {} L;\nEBB T narrow(f64 x) {{ return store({}); }}\n",
                                       loss == DType::f64 ? "f64" : "f32", is_half(x.dtype) ? "to_odd(x)" : "(A)x") +
                           kSharedText + kSampleText + (ctc ? kCtcText : kTransducerText);
  Words words;
  words.add(x.data).add(o.order >= 2 ? call.inputs[5].data : nullptr).add(labels.data).add(input_lengths.data);
  words.add(label_lengths.data).add(keep ? call.inputs[4].data : nullptr).add(call.outputs[0].data);
  words.add(keep ? call.outputs[1].data : nullptr).add(alpha.data).add(beta.data).add(near.data);
  words.add(steps).add(samples).add(classes).add(room).add(labels.shape[0]).add(std::int64_t{joined});
  words.add(std::int64_t{o.order}).add(o.blank).add(std::int64_t{o.zero_infinity});
  const auto strides = [&](const View& v) {  // of time, batch, class
    words.add(v.strides[ctc ? 0 : 1]).add(v.strides[ctc ? 1 : 0]).add(v.strides[ctc ? 2 : 3]);
  };
  const View& tangent = o.order >= 2 ? call.inputs[5] : x;
  strides(x);
  strides(tangent);
  words.add(x.strides[2]).add(tangent.strides[2]);  // of labels, where they are an axis
  words.add(joined ? 0 : labels.strides[0]).add(labels.strides[joined ? 0 : 1]);
  words.add(input_lengths.strides[0]).add(label_lengths.strides[0]).add(keep ? call.inputs[4].strides[0] : 0);
  words.add(chip).add(kStateBytes).add(static_cast<const void*>(mark.slot())).add(static_cast<std::int64_t>(step));
  launch_blocks(gpu, text, "align", samples, words, chip);
}

}  // namespace

void run_ctc(const LibraryCall& call, Gpu& gpu, RunMark& mark) { run_alignment(call, gpu, mark); }
void run_transducer(const LibraryCall& call, Gpu& gpu, RunMark& mark) { run_alignment(call, gpu, mark); }

}  // namespace ebb::cuda
