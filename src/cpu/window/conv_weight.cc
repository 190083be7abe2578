#include <algorithm>
#include <cstring>
#include <vector>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"
#include "cpu/window/kernels.h"
#include "cpu/window/plan.h"
#include "graph/conv_calls.h"

// The gradient of a convolution to its windows: dw[k, c, r, s] = Σ_{n, p, q} g[n, k, p, q]·x[n, c, p + r.., q + s..].
// Images are shared out in chunks, each with sums of its own that are added in order at the end; chunks, blocks of
// channels and bands of rows depend on the shapes alone, and so do the bits.
namespace ebb::cpu {
namespace {

std::int64_t pieces_of(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

template <class T>
class WindowGradient {
 public:
  WindowGradient(const WindowPlan& plan, const View& x, const View& g, const View& out, std::int64_t groups)
      : plan_(plan),
        g_(g),
        out_(out),
        groups_(groups),
        images_(x.shape[0]),
        channels_(out.shape[1]),
        outputs_(out.shape[0] / groups),
        taps_(out.shape[2] * out.shape[3]),
        by_dots_(outputs_ <= 2),
        width_(by_dots_ ? outputs_ : pieces_of(outputs_, tile().channels) * tile().channels) {
    // Sums of the chunks take at most this much memory, but there is always one.
    constexpr std::int64_t kBytes = 64 << 20;
    const std::int64_t each = out.shape[1] * taps_ * width_ * groups * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t most = std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(1, each), 1, 16);
    per_chunk_ = std::max<std::int64_t>(1, pieces_of(images_, most));
    chunks_ = pieces_of(images_, per_chunk_);
    const double work = 2.0 * static_cast<double>(outputs_ * channels_ * taps_) *
                        static_cast<double>(per_chunk_ * g.shape[2] * g.shape[3]);
    groups_together_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(4e6 / std::max(1.0, work)), 1, groups_);
    const std::int64_t tasks = std::max<std::int64_t>(1, chunks_ * pieces_of(groups_, groups_together_));
    const std::int64_t blocks =
        std::clamp<std::int64_t>(pieces_of(16, tasks), 1, std::max<std::int64_t>(1, channels_ * taps_ / 48));
    block_ = std::max<std::int64_t>(1, pieces_of(channels_, blocks));
    blocks_ = pieces_of(channels_, block_);
    rows_ = pieces_of(block_ * taps_, tile().taps) * tile().taps;
    constexpr std::int64_t kSource = 256 * 1024, kGradients = 256 * 1024;  // of a band, in L2
    const auto size = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t source_row =
        block_ * static_cast<std::int64_t>(plan.planes.size()) * (plan.count[1] + plan.span[1]) * size;
    const std::int64_t gradient_row = width_ * plan.count[1] * size;
    const std::int64_t rows = std::min(kSource / std::max<std::int64_t>(1, source_row) - plan.span[0],
                                       kGradients / std::max<std::int64_t>(1, gradient_row));
    const std::int64_t bands = pieces_of(plan.count[0], std::max<std::int64_t>(rows, 4));
    band_ = std::max<std::int64_t>(1, pieces_of(plan.count[0], std::max<std::int64_t>(1, bands)));
    source_.emplace_back(plan, x, band_);
  }

  void run() {
    if (out_.shape.numel() == 0) return;
    if (images_ == 0 || g_.shape.numel() == 0) return zero_elements(out_);
    const std::int64_t piece = rows_ * width_;  // sums of a block of channels
    const std::int64_t runs = pieces_of(groups_, groups_together_);
    const BufferPtr memory = BufferPtr::allocate(
        static_cast<std::size_t>(chunks_ * groups_ * blocks_ * piece) * sizeof(T), "conv_weight_gradient");
    T* sums = reinterpret_cast<T*>(memory.data());
    parallel_for(chunks_ * runs * blocks_, [&](std::int64_t task) {
      const std::int64_t block = task % blocks_, r = task / blocks_ % runs, chunk = task / blocks_ / runs;
      for (std::int64_t group = r * groups_together_; group < std::min(groups_, (r + 1) * groups_together_); ++group)
        add_images(chunk, group, block, sums + ((chunk * groups_ + group) * blocks_ + block) * piece);
    });
    // Chunks in order; the result has the output channel outside.
    const StoreFn store = tile_kernels().store(kType, out_.dtype);
    parallel_for(groups_ * blocks_, [&](std::int64_t i) {
      const std::int64_t block = i % blocks_, group = i / blocks_;
      const std::int64_t count = std::min(block_, channels_ - block * block_) * taps_;
      T* total = sums + (group * blocks_ + block) * piece;
      for (std::int64_t c = 1; c < chunks_; ++c) {
        const T* more = total + c * groups_ * blocks_ * piece;
        for (std::int64_t t = 0; t < count * width_; ++t) total[t] += more[t];
      }
      std::vector<T> line(static_cast<std::size_t>(count));
      for (std::int64_t k = 0; k < outputs_; ++k) {
        for (std::int64_t t = 0; t < count; ++t) line[static_cast<std::size_t>(t)] = total[t * width_ + k];
        const std::int64_t at = ((group * outputs_ + k) * channels_ + block * block_) * taps_;
        store(element_at(out_, at), 1, line.data(), line.size());
      }
    });
  }

 private:
  static constexpr RegType kType = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  static const CorrelationTile<T>& tile() { return window_kernels<T>().correlation; }

  void add_images(std::int64_t chunk, std::int64_t group, std::int64_t block, T* sums) const {
    const WindowSource<T>& source = source_[0];
    const std::int64_t first = block * block_, channels = std::min(block_, channels_ - first), length = plan_.count[1];
    const std::int64_t image_size = block_ * source.channel_size() + WindowSource<T>::kSlack;
    const BufferPtr memory = BufferPtr::allocate(
        static_cast<std::size_t>(image_size + width_ * band_ * length) * sizeof(T), "conv_weight_gradient");
    T *image = reinterpret_cast<T*>(memory.data()), *gradients = image + image_size;
    std::vector<std::int64_t> offset;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (const WindowPlan::Tap& tap : plan_.phases[0].taps) offset.push_back(source.offset(c, tap));
    }
    const auto rows = static_cast<std::int64_t>(offset.size());
    offset.resize(static_cast<std::size_t>(rows_), 0);
    std::memset(sums, 0, static_cast<std::size_t>(rows_ * width_) * sizeof(T));
    for (std::int64_t n = chunk * per_chunk_; n < std::min(images_, (chunk + 1) * per_chunk_); ++n) {
      for (std::int64_t top = 0; top < plan_.count[0]; top += band_) {
        const std::int64_t lines = std::min(band_, plan_.count[0] - top);
        source.fill(n, group * channels_ + first, channels, top, image);
        load_gradients(n, group, top, lines, gradients);
        if (by_dots_) {
          for (std::int64_t k = 0; k < outputs_; ++k) {
            for (std::int64_t t = 0; t < rows; ++t)
              sums[t * width_ + k] +=
                  window_kernels<T>().dot(lines, length, gradients + k * lines * length,
                                          image + offset[static_cast<std::size_t>(t)], source.pitch);
          }
          continue;
        }
        for (std::int64_t k = 0; k < width_; k += tile().channels) {
          for (std::int64_t t = 0; t < rows; t += tile().taps)
            tile().run(lines, length, gradients + k * lines * length, image, source.pitch, offset.data() + t,
                       sums + t * width_ + k, width_);
        }
      }
    }
  }

  // The band's cotangents: a line of positions an output channel (dots), or panels [position][channel] (tiles).
  void load_gradients(std::int64_t n, std::int64_t group, std::int64_t top, std::int64_t lines, T* to) const {
    const LoadFn load = tile_kernels().load(g_.dtype, kType);
    const std::int64_t length = plan_.count[1], positions = lines * length, panel = tile().channels;
    std::vector<T> line(static_cast<std::size_t>(by_dots_ ? 0 : panel * length));
    const auto row = [&](std::int64_t k, std::int64_t p) {
      return element_at(g_, n * g_.strides[0] + (group * outputs_ + k) * g_.strides[1] + (top + p) * g_.strides[2]);
    };
    if (by_dots_) {
      for (std::int64_t k = 0; k < outputs_; ++k) {
        for (std::int64_t p = 0; p < lines; ++p)
          load(to + k * positions + p * length, row(k, p), g_.strides[3], static_cast<std::size_t>(length));
      }
      return;
    }
    for (std::int64_t k = 0; k < width_; k += panel) {
      const std::int64_t here = std::min(panel, outputs_ - k);
      if (here < panel) std::memset(line.data(), 0, line.size() * sizeof(T));
      for (std::int64_t p = 0; p < lines; ++p) {
        for (std::int64_t m = 0; m < here; ++m)
          load(line.data() + m * length, row(k + m, p), g_.strides[3], static_cast<std::size_t>(length));
        T* at = to + k * positions + p * length * panel;
        for (std::int64_t j = 0; j < length; ++j) {
          for (std::int64_t m = 0; m < panel; ++m) at[j * panel + m] = line[static_cast<std::size_t>(m * length + j)];
        }
      }
    }
  }

  const WindowPlan& plan_;
  const View &g_, &out_;
  std::int64_t groups_, images_, channels_, outputs_, taps_;  // channels and outputs of a group
  bool by_dots_;
  std::int64_t width_;  // outputs, rounded up to whole panels
  std::int64_t per_chunk_ = 1, chunks_ = 1, groups_together_ = 1, block_ = 1, blocks_ = 1, rows_ = 0, band_ = 1;
  std::vector<WindowSource<T>> source_;  // one, made when the band is known
};

template <class T>
void run_gradient(const LibraryCall& call) {
  const View &x = call.inputs[0], &g = call.inputs[1], &out = call.outputs[0];
  const WindowPlan plan = WindowPlan::of_convolution(call.attrs, out.shape, g.shape);
  WindowGradient<T>(plan, x, g, out, ConvCall::from(call.attrs).groups).run();
}

}  // namespace

void run_conv_weight_gradient(const LibraryCall& call) {
  if (call.outputs[0].dtype == DType::f64) return run_gradient<double>(call);
  return run_gradient<float>(call);
}

}  // namespace ebb::cpu
