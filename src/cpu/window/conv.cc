// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
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

// Convolutions and transposed ones: a product of the windows, packed once, with the image, laid out in a padded copy of
// the rows a task needs. Every output is summed in one order, channel by channel and tap by tap, in whichever task: how
// the work is cut has no influence on the bits.
namespace ebb::cpu {
namespace {

constexpr std::int64_t kGroupVectors = 12;  // positions are taken this many vectors at a time: every tile divides it
constexpr std::int64_t kDepth = CpuModel::conv_depth;

// Output channels of a group as rows of tiles, and their windows in the order the tiles read them.
template <class T>
struct Panels {
  struct Panel {
    std::int64_t first, rows;  // channels
    const WindowTile<T>* tile;
    std::int64_t at;  // of its windows, within the group
  };
  std::vector<Panel> panels;
  std::int64_t group_size = 0, padded_rows = 0;

  Panels(std::int64_t channels, std::int64_t depth) {
    const WindowKernels<T>& k = window_kernels<T>();
    for (std::int64_t m = 0; m < channels;) {
      const WindowTile<T>* tile = &k.tiles[0];
      for (const WindowTile<T>& smaller : k.tiles) {
        if (smaller.rows >= channels - m) tile = &smaller;
      }
      const std::int64_t rows = std::min<std::int64_t>(tile->rows, channels - m);
      panels.push_back({m, rows, tile, group_size});
      group_size += tile->rows * depth;
      padded_rows += tile->rows;
      m += rows;
    }
  }
};

// Source addresses of vectors of positions, and destinations of their elements.
struct Positions {
  struct Run {
    std::int64_t column, i, j, count;  // `count` columns are outputs (i, j), (i, j + 1), ...
  };
  std::vector<std::int64_t> base;      // a whole number of groups
  std::vector<std::vector<Run>> runs;  // of each group
  std::int64_t vectors = 0, outputs = 0;

  // The number of vectors row by row, the last one of a row reaching over its end, and across the ends of rows.
  static std::array<std::int64_t, 2> ways(std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                                          std::int64_t lanes) {
    return {rows * ceil_div(cols, lanes), rows == 0 ? 0 : ceil_div((rows - 1) * pitch + cols, lanes)};
  }

  Positions(std::int64_t rows, std::int64_t cols, std::int64_t pitch, std::int64_t lanes) : outputs(rows * cols) {
    const std::int64_t width = kGroupVectors * lanes;
    const auto [by_row, across] = ways(rows, cols, pitch, lanes);
    vectors = std::min(by_row, across);
    runs.resize(static_cast<std::size_t>(ceil_div(vectors, kGroupVectors)));
    const auto put = [&](std::int64_t column, std::int64_t i, std::int64_t j, std::int64_t count) {
      while (count > 0) {  // runs are split where groups end
        const std::int64_t now = std::min(count, width - column % width);
        runs[static_cast<std::size_t>(column / width)].push_back({column % width, i, j, now});
        column += now, j += now, count -= now;
      }
    };
    if (by_row <= across) {
      const std::int64_t each = ceil_div(cols, lanes);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t v = 0; v < each; ++v) base.push_back(i * pitch + v * lanes);
        put(i * each * lanes, i, 0, cols);
      }
    } else {
      for (std::int64_t v = 0; v < across; ++v) base.push_back(v * lanes);
      for (std::int64_t i = 0; i < rows; ++i) put(i * pitch, i, 0, cols);
    }
    base.resize(runs.size() * kGroupVectors, 0);
  }
};

template <class T>
class Windows {
 public:
  Windows(const WindowPlan& plan, const View& source, const View& windows, bool transposed, const View* bias,
          const View& out, std::int64_t groups)
      : plan_(plan),
        out_(out),
        groups_(groups),
        images_(source.shape[0]),
        source_channels_(source.shape[1] / groups),
        channels_(out.shape[1] / groups),
        band_(rows_of_a_band()),
        source_(plan, source, band_) {
    pack(windows, transposed);
    // A tile reads a number for each of its rows: for the last of a group's channels, some of the next.
    bias_.assign(static_cast<std::size_t>(out.shape[1] + window_kernels<T>().tiles[0].rows), T(0));
    if (bias) load(bias->dtype)(bias_.data(), bias->data, bias->strides[0], static_cast<std::size_t>(out.shape[1]));
    for (const WindowPlan::Phase& phase : plan.phases) {
      std::vector<std::int64_t>& offset = offsets_.emplace_back();
      for (std::int64_t c = 0; c < source_channels_; ++c) {
        for (const WindowPlan::Tap& tap : phase.taps) offset.push_back(source_.offset(c, tap));
      }
      auto& positions = positions_.emplace_back();
      for (std::int64_t top = 0; top < plan.count[0]; top += band_) {
        const std::int64_t rows = std::clamp<std::int64_t>(phase.count[0] - top, 0, band_);
        if (top == 0 || rows != band_)
          positions.emplace_back(rows, phase.count[1], source_.pitch, window_kernels<T>().lanes);
        else
          positions.push_back(positions[0]);
      }
    }
  }

  void run() {
    if (out_.shape.numel() == 0) return;
    const std::int64_t bands = ceil_div(plan_.count[0], band_);
    double work = 0;  // of an image and a group
    for (const WindowPlan::Phase& p : plan_.phases)
      work += 2.0 * static_cast<double>(p.count[0] * p.count[1]) * static_cast<double>(p.taps.size()) *
              static_cast<double>(source_channels_ * channels_);
    const std::int64_t together =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(4e6 / std::max(1.0, work)), 1, groups_);
    const std::int64_t runs = ceil_div(groups_, together);
    // Few images: the channels of the result are shared as well.
    const auto panels = static_cast<std::int64_t>(panels_[0].panels.size());
    const std::int64_t parts =
        std::clamp<std::int64_t>(ceil_div(16, images_ * runs * bands), 1, std::max<std::int64_t>(1, panels / 2));
    const std::int64_t share = ceil_div(panels, parts);
    parallel_for(images_ * runs * bands * parts, [&](std::int64_t task) {
      const std::int64_t part = task % parts, band = task / parts % bands, r = task / parts / bands % runs;
      const std::int64_t n = task / parts / bands / runs;
      const std::int64_t size = source_channels_ * source_.channel_size() + WindowSource<T>::kSlack;
      const std::int64_t width = kGroupVectors * window_kernels<T>().lanes;
      const BufferPtr memory = BufferPtr::allocate(
          static_cast<std::size_t>(size + panels_[0].padded_rows * width) * sizeof(T), "a convolution");
      T* image = reinterpret_cast<T*>(memory.data());
      for (std::int64_t g = r * together; g < std::min(groups_, (r + 1) * together); ++g) {
        source_.fill(n, g * source_channels_, source_channels_, band * band_, image);
        for (std::size_t phase = 0; phase < plan_.phases.size(); ++phase)
          outputs(n, g, band, phase, part * share, std::min(panels, (part + 1) * share), image, image + size);
      }
    });
  }

 private:
  static constexpr RegType kType = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  static LoadFn load(DType dtype) { return tile_kernels().load(dtype, kType); }

  // As many rows of outputs as keep their source in L2.
  std::int64_t rows_of_a_band() const {
    const std::int64_t row = source_channels_ * static_cast<std::int64_t>(plan_.planes.size() * sizeof(T)) *
                             (plan_.count[1] + plan_.span[1]);
    const std::int64_t most =
        std::max<std::int64_t>(cpu_model().conv_band_bytes / std::max<std::int64_t>(1, row) - plan_.span[0], 4);
    const std::int64_t bands = std::max<std::int64_t>(1, ceil_div(plan_.count[0], most));
    return std::max<std::int64_t>(1, ceil_div(plan_.count[0], bands));
  }

  void pack(const View& windows, bool transposed) {
    const std::int64_t output_stride = windows.strides[transposed ? 1 : 0];
    const std::int64_t source_stride = windows.strides[transposed ? 0 : 1];
    for (const WindowPlan::Phase& phase : plan_.phases) {
      const std::int64_t depth = source_channels_ * static_cast<std::int64_t>(phase.taps.size());
      const Panels<T>& p = panels_.emplace_back(channels_, depth);
      T* to = reinterpret_cast<T*>(packed_
                                       .emplace_back(BufferPtr::allocate(
                                           static_cast<std::size_t>(groups_ * p.group_size) * sizeof(T), "windows"))
                                       .data());
      const LoadFn read = load(windows.dtype);
      const auto panels = static_cast<std::int64_t>(p.panels.size());
      parallel_for(groups_ * panels, [&](std::int64_t i) {
        const auto& panel = p.panels[static_cast<std::size_t>(i % panels)];
        const std::int64_t group = i / panels, rows = panel.tile->rows;
        T* at = to + group * p.group_size + panel.at;
        std::memset(at, 0, static_cast<std::size_t>(rows * depth) * sizeof(T));
        // The leading axis of w has the channels of all groups, the other those of one.
        const std::int64_t start = group * (transposed ? source_channels_ : channels_) * windows.strides[0];
        for (std::int64_t m = 0; m < panel.rows; ++m) {
          std::int64_t k = 0;
          for (std::int64_t c = 0; c < source_channels_; ++c) {
            const std::int64_t from = start + (panel.first + m) * output_stride + c * source_stride;
            for (const WindowPlan::Tap& tap : phase.taps) {
              T weight;
              read(&weight, element_at(windows, from + tap.at[0] * windows.strides[2] + tap.at[1] * windows.strides[3]),
                   1, 1);
              at[k++ * rows + m] = weight;
            }
          }
        }
      });
    }
  }

  // Whether the outputs of a band are contiguous in memory like its vectors.
  bool lies_as_vectors(const WindowPlan::Phase& phase, const Positions& positions) const {
    const std::int64_t lanes = window_kernels<T>().lanes, cols = phase.count[1];
    return out_.dtype == (std::is_same_v<T, double> ? DType::f64 : DType::f32) && plan_.output_step[0] == 1 &&
           plan_.output_step[1] == 1 && (cols % lanes == 0 || cols == source_.pitch) &&
           positions.outputs == positions.vectors * lanes;
  }

  void outputs(std::int64_t n, std::int64_t group, std::int64_t band, std::size_t phase, std::int64_t first_panel,
               std::int64_t last_panel, const T* image, T* sums) const {
    const WindowPlan::Phase& p = plan_.phases[phase];
    const Positions& positions = positions_[phase][static_cast<std::size_t>(band)];
    const std::vector<std::int64_t>& offset = offsets_[phase];
    const auto depth = static_cast<std::int64_t>(offset.size());
    const Panels<T>& all = panels_[phase];
    const T* windows = reinterpret_cast<const T*>(packed_[phase].data()) + group * all.group_size;
    const std::int64_t lanes = window_kernels<T>().lanes, width = kGroupVectors * lanes;
    const StoreFn store = tile_kernels().store(kType, out_.dtype);
    const std::int64_t plane = out_.shape[2] * out_.shape[3], first_channel = n * out_.shape[1] + group * channels_;
    const bool as_vectors = lies_as_vectors(p, positions);
    const auto in_place = [&](const auto& panel) {
      return as_vectors && panel.tile->exact && panel.rows == panel.tile->rows;
    };
    for (std::size_t s = 0; s < positions.runs.size(); ++s) {
      const std::int64_t first = static_cast<std::int64_t>(s) * kGroupVectors;
      const std::int64_t vectors = std::min(kGroupVectors, positions.vectors - first);
      for (std::int64_t k = 0; k == 0 || k < depth; k += kDepth) {
        T* rows = sums;
        for (std::int64_t i = first_panel; i < last_panel; ++i) {
          const auto& panel = all.panels[static_cast<std::size_t>(i)];
          const bool here = in_place(panel);
          T* to = here ? reinterpret_cast<T*>(element_at(out_, (first_channel + panel.first) * plane +
                                                                   band * band_ * out_.shape[3] + first * lanes))
                       : rows;
          const T* start = k == 0 ? bias_.data() + group * channels_ + panel.first : nullptr;
          // As few tiles as suffice, nearly equally wide. Inexact ones must not reach into the next one.
          std::int64_t now;
          for (std::int64_t v = 0, tiles = ceil_div(vectors, panel.tile->vectors); v < vectors; v += now) {
            now = panel.tile->exact ? ceil_div(vectors - v, tiles--)
                                    : std::min<std::int64_t>(vectors - v, panel.tile->vectors);
            panel.tile->run[now - 1](std::min(kDepth, depth - k), windows + panel.at + k * panel.tile->rows, image,
                                     offset.data() + k, positions.base.data() + first + v, start, to + v * lanes,
                                     here ? plane : width);
          }
          rows += panel.tile->rows * width;
        }
      }
      T* rows = sums;
      for (std::int64_t i = first_panel; i < last_panel; ++i) {
        const auto& panel = all.panels[static_cast<std::size_t>(i)];
        for (std::int64_t m = 0; m < panel.rows && !in_place(panel); ++m) {
          const std::int64_t channel = first_channel + panel.first + m;
          for (const Positions::Run& run : positions.runs[s]) {
            const std::int64_t y = p.start[0] + plan_.output_step[0] * (band * band_ + run.i);
            const std::int64_t x = p.start[1] + plan_.output_step[1] * run.j;
            store(element_at(out_, (channel * out_.shape[2] + y) * out_.shape[3] + x), plan_.output_step[1],
                  rows + m * width + run.column, static_cast<std::size_t>(run.count));
          }
        }
        rows += panel.tile->rows * width;
      }
    }
  }

  const WindowPlan& plan_;
  const View& out_;
  std::int64_t groups_, images_, source_channels_, channels_, band_;
  WindowSource<T> source_;
  std::vector<Panels<T>> panels_;  // of each phase
  std::vector<BufferPtr> packed_;  // their windows, group by group
  std::vector<std::vector<std::int64_t>> offsets_;
  std::vector<std::vector<Positions>> positions_;  // of each phase and band
  std::vector<T> bias_;
};

// Whether a copy of the source for each column of the windows saves enough vectors to be worthwhile.
template <class T>
bool worth_separate_columns(const WindowPlan& plan, std::int64_t channels) {
  const std::int64_t lanes = window_kernels<T>().lanes, pitch = plan.count[1] + plan.span[1];
  const auto [by_row, across] = Positions::ways(plan.count[0], plan.count[1], pitch, lanes);
  return channels >= cpu_model().conv_separate_channels &&
         ceil_div(plan.count[0] * plan.count[1], lanes) * 10 < std::min(by_row, across) * 9;
}

template <class T>
void run_windows(WindowPlan& plan, const LibraryCall& call, bool transposed) {
  const View &source = call.inputs[0], &windows = call.inputs[1], &out = call.outputs[0];
  if (worth_separate_columns<T>(plan, out.shape[1] / options_as<ConvCall>(call.attrs).groups)) plan.separate_columns();
  Windows<T>(plan, source, windows, transposed, call.inputs.size() > 2 ? &call.inputs[2] : nullptr, out,
             options_as<ConvCall>(call.attrs).groups)
      .run();
}

}  // namespace

void run_convolution(const LibraryCall& call) {
  WindowPlan plan = WindowPlan::of_convolution(call.attrs, call.inputs[1].shape, call.outputs[0].shape);
  if (call.outputs[0].dtype == DType::f64) return run_windows<double>(plan, call, false);
  return run_windows<float>(plan, call, false);
}

void run_conv_transpose(const LibraryCall& call) {
  WindowPlan plan = WindowPlan::of_transposed(call.attrs, call.inputs[1].shape, call.outputs[0].shape);
  if (call.outputs[0].dtype == DType::f64) return run_windows<double>(plan, call, true);
  return run_windows<float>(plan, call, true);
}

}  // namespace ebb::cpu
