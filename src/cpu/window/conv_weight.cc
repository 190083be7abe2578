// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <vector>

#include "calls/convolution.h"
#include "core/buffer.h"
#include "core/ceil_div.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"
#include "cpu/window/kernels.h"
#include "cpu/window/plan.h"

// The gradient of a convolution to its windows: dw[k, c, r, s] = Σ_{n, p, q} g[n, k, p, q]·x[n, c, p + r.., q + s..].
// Images are divided into chunks, each with sums of its own that are added in order at the end; chunks, blocks of
// channels and bands of rows depend on the shapes alone, and so do the bits.
namespace ebb::cpu {
namespace {

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
        tile_(tile_for(outputs_)),
        width_(by_dots_ ? outputs_ : ceil_div(outputs_, tile_.channels) * tile_.channels) {
    // The chunks' sums take at most this much memory, but there is always at least one.
    const CpuModel& model = cpu_model();
    const std::int64_t each = out.shape[1] * taps_ * width_ * groups * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t most =
        std::clamp<std::int64_t>(model.conv_weight_sums / std::max<std::int64_t>(1, each), 1, model.conv_weight_chunks);
    per_chunk_ = std::max<std::int64_t>(1, ceil_div(images_, most));
    chunks_ = ceil_div(images_, per_chunk_);
    const double work = 2.0 * static_cast<double>(outputs_ * channels_ * taps_) *
                        static_cast<double>(per_chunk_ * g.shape[2] * g.shape[3]);
    groups_together_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(model.conv_weight_task_flops / std::max(1.0, work)), 1, groups_);
    const std::int64_t tasks = std::max<std::int64_t>(1, chunks_ * ceil_div(groups_, groups_together_));
    const std::int64_t blocks =
        std::clamp<std::int64_t>(ceil_div(16, tasks), 1, std::max<std::int64_t>(1, channels_ * taps_ / 48));
    block_ = std::max<std::int64_t>(1, ceil_div(channels_, blocks));
    blocks_ = ceil_div(channels_, block_);
    rows_ = rows_of_a_block();
    const auto size = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t source_row =
        block_ * static_cast<std::int64_t>(plan.planes.size()) * (plan.count[1] + plan.span[1]) * size;
    const std::int64_t gradient_row = width_ * plan.count[1] * size;
    const std::int64_t rows =
        std::min(model.conv_weight_band_bytes / std::max<std::int64_t>(1, source_row) - plan.span[0],
                 model.conv_weight_band_bytes / std::max<std::int64_t>(1, gradient_row));
    const std::int64_t bands = ceil_div(plan.count[0], std::max<std::int64_t>(rows, 4));
    band_ = std::max<std::int64_t>(1, ceil_div(plan.count[0], std::max<std::int64_t>(1, bands)));
    source_.emplace_back(plan, x, band_);
  }

  void run() {
    if (out_.shape.numel() == 0) return;
    if (images_ == 0 || g_.shape.numel() == 0) return zero_elements(out_);
    const std::int64_t piece = rows_ * width_;  // sums of a block of channels
    const std::int64_t runs = ceil_div(groups_, groups_together_);
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
        for (std::int64_t t = 0; t < piece; ++t) total[t] += more[t];
      }
      std::vector<T> line(static_cast<std::size_t>(count));
      const std::vector<Row> order = rows_in_order(count / taps_);
      for (std::int64_t k = 0; k < outputs_; ++k) {
        for (std::size_t r = 0; r < order.size(); ++r) {
          if (order[r].used)
            line[static_cast<std::size_t>(order[r].channel * taps_ + order[r].tap)] =
                total[static_cast<std::int64_t>(r) * width_ + k];
        }
        const std::int64_t at = ((group * outputs_ + k) * channels_ + block * block_) * taps_;
        store(element_at(out_, at), 1, line.data(), line.size());
      }
    });
  }

 private:
  static constexpr std::int64_t kLines = CpuModel::conv_weight_line_bytes / static_cast<std::int64_t>(sizeof(T));
  static constexpr RegType kType = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  // Otherwise half of the two vectors that hold only the last channels would be zeros.
  static const CorrelationTile<T>& tile_for(std::int64_t outputs) {
    const WindowKernels<T>& k = window_kernels<T>();
    return k.one_vector.run && ceil_div(outputs, k.lanes) % 2 == 1 ? k.one_vector : k.correlation;
  }

  // The order of a block's sums: by channel and tap, or in columns of the same tap of several channels.
  struct Row {
    std::int64_t channel, tap;
    bool used;  // false: only fills a tile
  };
  std::int64_t rows_of_a_block() const {
    if (by_dots_) return block_ * taps_;
    if (tile_.column == 1) return ceil_div(block_ * taps_, tile_.taps) * tile_.taps;
    const std::int64_t columns = tile_.taps / tile_.column;
    return ceil_div(block_, tile_.column) * ceil_div(taps_, columns) * tile_.taps;
  }
  std::vector<Row> rows_in_order(std::int64_t channels) const {
    std::vector<Row> rows;
    if (by_dots_ || tile_.column == 1) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t t = 0; t < taps_; ++t) rows.push_back({c, t, true});
      }
      rows.resize(static_cast<std::size_t>(ceil_div(channels * taps_, tile_.taps) * tile_.taps), {0, 0, false});
      if (by_dots_) rows.resize(static_cast<std::size_t>(channels * taps_));
      return rows;
    }
    const std::int64_t columns = tile_.taps / tile_.column;
    for (std::int64_t c = 0; c < channels; c += tile_.column) {
      for (std::int64_t t = 0; t < ceil_div(taps_, columns) * columns; ++t) {
        for (std::int64_t k = c; k < c + tile_.column; ++k)
          rows.push_back({k < channels ? k : 0, t < taps_ ? t : 0, k < channels && t < taps_});
      }
    }
    return rows;
  }

  void add_images(std::int64_t chunk, std::int64_t group, std::int64_t block, T* sums) const {
    const WindowSource<T>& source = source_[0];
    const std::int64_t first = block * block_, channels = std::min(block_, channels_ - first), length = plan_.count[1];
    const std::int64_t image_size = block_ * source.channel_size() + WindowSource<T>::kSlack;
    const BufferPtr memory = BufferPtr::allocate(
        static_cast<std::size_t>(image_size + width_ * band_ * length) * sizeof(T), "conv_weight_gradient");
    T *image = reinterpret_cast<T*>(memory.data()), *gradients = image + image_size;
    std::vector<std::int64_t> offset;
    for (const Row& row : rows_in_order(channels))
      offset.push_back(source.offset(row.channel, plan_.phases[0].taps[static_cast<std::size_t>(row.tap)]));
    const auto rows = static_cast<std::int64_t>(offset.size());
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
        // As many lines at a time as stay in L1 while the taps stream past.
        const std::int64_t some = std::max<std::int64_t>(1, kLines / (length * tile_.channels));
        for (std::int64_t k = 0; k < width_; k += tile_.channels) {
          for (std::int64_t p = 0; p < lines; p += some) {
            for (std::int64_t t = 0; t < rows; t += tile_.taps)
              tile_.run(std::min(some, lines - p), length, gradients + (k * lines + p * tile_.channels) * length,
                        image + p * source.pitch, source.pitch, offset.data() + t, sums + t * width_ + k, width_);
          }
        }
      }
    }
  }

  // The band's cotangents: a line of positions per output channel (dots), or panels [position][channel] (tiles).
  void load_gradients(std::int64_t n, std::int64_t group, std::int64_t top, std::int64_t lines, T* to) const {
    const LoadFn load = tile_kernels().load(g_.dtype, kType);
    const bool as_it_is = g_.dtype == (kType == RegType::f64 ? DType::f64 : DType::f32) && g_.strides[3] == 1;
    const std::int64_t length = plan_.count[1], positions = lines * length, panel = tile_.channels;
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
      if (as_it_is && here == panel) {  // whole lines, or all of them if they are contiguous
        const bool together = g_.strides[2] == length;
        for (std::int64_t p = 0; p < (together ? 1 : lines); ++p)
          window_kernels<T>().transpose(panel, together ? positions : length, reinterpret_cast<const T*>(row(k, p)),
                                        g_.strides[1], to + k * positions + p * length * panel, panel);
        continue;
      }
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
  const CorrelationTile<T>& tile_;
  std::int64_t width_;  // outputs, rounded up to whole panels
  std::int64_t per_chunk_ = 1, chunks_ = 1, groups_together_ = 1, block_ = 1, blocks_ = 1, rows_ = 0, band_ = 1;
  std::vector<WindowSource<T>> source_;  // one, made when the band is known
};

template <class T>
void run_gradient(const LibraryCall& call) {
  const View &x = call.inputs[0], &g = call.inputs[1], &out = call.outputs[0];
  const WindowPlan plan = WindowPlan::of_convolution(call.attrs, out.shape, g.shape);
  WindowGradient<T>(plan, x, g, out, options_as<ConvCall>(call.attrs).groups).run();
}

}  // namespace

void run_conv_weight_gradient(const LibraryCall& call) {
  if (call.outputs[0].dtype == DType::f64) return run_gradient<double>(call);
  return run_gradient<float>(call);
}

}  // namespace ebb::cpu
