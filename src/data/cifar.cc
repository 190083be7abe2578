// SPDX-License-Identifier: MIT
#include <vector>

#include "core/format_error.h"
#include "ebb/data/readers.h"
#include "ebb/ops/create.h"
#include "io/mapped_file.h"

namespace ebb {
namespace {

constexpr std::size_t kCifarPixels = 3 * 32 * 32;

// A record: its labels, one byte each, and the picture, three planes of 32 × 32.
LabelledImages read_cifar(const std::vector<std::string>& paths, const char* name,
                          const std::vector<int>& label_counts) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::vector<std::int64_t>> labels(label_counts.size());
  const std::size_t record = label_counts.size() + kCifarPixels;
  for (const std::string& path : paths) {
    const auto file = io::MappedFile::open(path);
    const auto all = file->bytes();
    require(all.size() % record == 0, Error::Kind::io, "{}: {} bytes are not a whole number of {} records of {} bytes",
            path, all.size(), name, record);
    for (std::size_t at = 0; at < all.size(); at += record) {
      for (std::size_t k = 0; k < labels.size(); ++k) {
        const auto label = static_cast<int>(all[at + k]);
        require(label < label_counts[k], Error::Kind::io, "{}: record {} has label {}, which is outside [0, {})", path,
                at / record, label, label_counts[k]);
        labels[k].push_back(label);
      }
      const auto* picture = reinterpret_cast<const std::uint8_t*>(all.data()) + at + labels.size();
      pixels.insert(pixels.end(), picture, picture + kCifarPixels);
    }
  }
  const auto n = static_cast<std::int64_t>(labels[0].size());
  LabelledImages out;
  out.images = from_data(pixels, {n, 3, 32, 32});
  out.labels = from_data(labels.back(), {n});
  if (labels.size() > 1) out.coarse_labels = from_data(labels[0], {n});
  return out;
}

}  // namespace

LabelledImages read_cifar10(const std::vector<std::string>& paths) { return read_cifar(paths, "CIFAR-10", {10}); }
LabelledImages read_cifar100(const std::vector<std::string>& paths) {
  return read_cifar(paths, "CIFAR-100", {20, 100});
}

}  // namespace ebb
