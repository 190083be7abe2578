// SPDX-License-Identifier: MIT
#include "schedule/strip_model.h"

#include <algorithm>
#include <utility>

namespace ebb {
namespace {

constexpr std::int64_t kNever = std::int64_t{1} << 62;
constexpr std::int64_t kLeastColumns = 512;  // of a tile: narrower products do not fill a device

thread_local std::optional<StripModel> model_in_use;

}  // namespace

std::optional<StripModel> strip_model_of_thread() { return model_in_use; }

StripModel strip_model(Device device) {
  if (model_in_use) return *model_in_use;
  return device.kind == Device::Kind::cuda ? kGpuStrips : StripModel{};
}

StripModel tiles_of(const StripModel& strips, std::int64_t rows) {
  const std::int64_t large = strips.strip_bytes / 4;
  return {.large = large,
          .large_enough_to_repeat = strips.large_enough_to_repeat <= strips.large ? large : kNever,
          .strip_bytes = strips.tile_bytes,
          .least_rows = std::min(strips.least_rows, kLeastColumns),
          .rows_cut = rows};
}

std::vector<StripModel> strips_within(std::size_t budget, Device device) {
  const auto bytes = static_cast<std::int64_t>(std::min<std::size_t>(budget, std::size_t{1} << 60));
  const std::int64_t strip = std::clamp<std::int64_t>(bytes / 32, 4 << 10, StripModel{}.strip_bytes);
  const std::int64_t large = std::max<std::int64_t>(bytes / 16, 8 << 10);
  const std::int64_t short_strip = std::max<std::int64_t>(strip / 8, 4 << 10);
  std::vector<StripModel> models;
  if (device.kind == Device::Kind::cuda) {
    StripModel tiles = kGpuStrips;
    tiles.large = std::min(tiles.large, large);
    tiles.tile_bytes = std::clamp<std::int64_t>(bytes / 16, 4 << 10, std::int64_t{64} << 20);
    for (const std::int64_t repeated : {kNever, tiles.large}) {
      tiles.large_enough_to_repeat = repeated;
      models.push_back(tiles);
    }
  }
  models.insert(models.end(), {{large, kNever, strip, 128}, {large, large, strip, 128}});
  models.push_back({large / 4, large / 4, short_strip, 32});
  return models;
}

UseStripModel::UseStripModel(const StripModel& model) : before_(std::exchange(model_in_use, model)) {}
UseStripModel::~UseStripModel() { model_in_use = before_; }

}  // namespace ebb
