// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb {

// Pixels in file order: row by row, the channels of a pixel together.
struct Picture {
  std::int64_t height = 0, width = 0;
  std::size_t channels = 1;  // grey, or red, green and blue
  std::vector<std::uint8_t> pixels;
};

// Throws an Error that names the file unless a picture of so many pixels can be read.
void check_picture_size(std::uint64_t width, std::uint64_t height, const std::string& path);

Picture read_picture(const std::string& path);  // PNG, JPEG, PGM or PPM, recognised by its first bytes
Picture read_jpeg(std::span<const std::byte> file, const std::string& path);

// Resampled to this size. A pixel is a mean of those it covers, weighted by a triangle as wide as two pixels of the
// smaller of the two pictures, so that shrinking skips no pixel.
Picture resized(const Picture& picture, std::int64_t height, std::int64_t width);

// Appends [channels, height, width] to `out`. Grey is 0.299 R + 0.587 G + 0.114 B, as in ITU-R BT.601.
void append_planes(const Picture& picture, std::size_t channels, std::vector<std::uint8_t>& out);

// Entries of a folder, sorted by name.
std::vector<std::string> picture_files(const std::string& folder);
std::vector<std::string> folders_in(const std::string& folder);

}  // namespace ebb
