// SPDX-License-Identifier: MIT
#include <png.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "data/picture.h"
#include "ebb/data/readers.h"
#include "ebb/ops/create.h"
#include "io/mapped_file.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28;

// ---- PNG ------------------------------------------------------------------------------------------------------------

struct Png {
  png_image image{};
  ~Png() { png_image_free(&image); }
};

Picture read_png(std::span<const std::byte> all, const std::string& path) {
  Png png;
  png.image.version = PNG_IMAGE_VERSION;
  require(png_image_begin_read_from_memory(&png.image, all.data(), all.size()) != 0, Error::Kind::io,
          "{}: the PNG cannot be read: {}", path, png.image.message);
  check_picture_size(png.image.width, png.image.height, path);
  // Deflate compresses at most 1032 : 1, and a pixel takes at least a bit.
  const std::uint64_t count = std::uint64_t{png.image.width} * png.image.height;
  require(count / (8 * 1032) <= all.size(), Error::Kind::io, "{}: {} pixels cannot come out of {} bytes", path, count,
          all.size());
  const bool colour = (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  const bool alpha = (png.image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.image.format = colour ? (alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB) : (alpha ? PNG_FORMAT_GA : PNG_FORMAT_GRAY);
  Picture picture{png.image.height, png.image.width, colour ? std::size_t{3} : std::size_t{1}, {}};
  std::vector<std::uint8_t> raw(PNG_IMAGE_SIZE(png.image));
  require(png_image_finish_read(&png.image, nullptr, raw.data(), 0, nullptr) != 0, Error::Kind::io,
          "{}: the PNG cannot be read: {}", path, png.image.message);
  if (!alpha) {
    picture.pixels = std::move(raw);
  } else {
    const std::size_t step = picture.channels + 1;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (i % step != picture.channels) picture.pixels.push_back(raw[i]);
    }
  }
  return picture;
}

// ---- PGM and PPM ----------------------------------------------------------------------------------------------------

// P2 and P3 are text, P5 and P6 bytes; 2 and 5 are grey. Width, height and the largest value follow, with comments.
class PnmReader {
 public:
  PnmReader(std::span<const std::byte> all, const std::string& path)
      : text_(reinterpret_cast<const char*>(all.data()), all.size()), path_(path) {}

  Picture read() {
    const char kind = text_[1];
    at_ = 2;
    const std::uint64_t width = number("width"), height = number("height"), largest = number("largest value");
    check_picture_size(width, height, path_);
    require(largest >= 1 && largest <= 65535, Error::Kind::io, "{}: the largest value must lie in [1, 65535], got {}",
            path_, largest);
    Picture picture{static_cast<std::int64_t>(height),
                    static_cast<std::int64_t>(width),
                    kind == '3' || kind == '6' ? std::size_t{3} : std::size_t{1},
                    {}};
    const std::uint64_t count = width * height * picture.channels;
    const bool bytes = kind == '5' || kind == '6';
    const std::uint64_t wide = bytes && largest > 255 ? 2 : 1;
    if (bytes) ++at_;  // one blank
    require(at_ <= text_.size() && count <= (text_.size() - at_) / wide, Error::Kind::io,
            "{}: {} values of a {} × {} picture do not fit the {} bytes the file has left", path_, count, width, height,
            at_ <= text_.size() ? text_.size() - at_ : 0);
    picture.pixels.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      if (bytes) {
        for (std::uint64_t k = 0; k < wide; ++k) value = value << 8 | static_cast<std::uint8_t>(text_[at_++]);
      } else {
        value = number("value");
      }
      require(value <= largest, Error::Kind::io, "{}: value {} is {}, more than the largest, {}", path_, i, value,
              largest);
      picture.pixels.push_back(static_cast<std::uint8_t>((value * 255 + largest / 2) / largest));
    }
    return picture;
  }

 private:
  std::uint64_t number(const char* what) {
    const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    while (at_ < text_.size() && (blank(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
    const std::size_t start = at_;
    std::uint64_t value = 0;
    while (at_ < text_.size() && at_ - start < 10 && text_[at_] >= '0' && text_[at_] <= '9') {
      value = 10 * value + static_cast<std::uint64_t>(text_[at_++] - '0');
    }
    require(at_ > start, Error::Kind::io, "{}: the picture has no {} at byte {}", path_, what, start);
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

// ---- folders --------------------------------------------------------------------------------------------------------

bool is_picture(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* known : {".png", ".jpg", ".jpeg", ".ppm", ".pgm"}) {
    if (suffix == known) return true;
  }
  return false;
}

template <class Wanted>
std::vector<std::string> entries(const std::string& folder, Wanted wanted) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (wanted(*it)) found.push_back(it->path().string());
  }
  require(!error, Error::Kind::io, "{}: cannot be listed: {}", folder, error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> picture_files(const std::string& folder) {
  return entries(folder, [](const fs::directory_entry& e) { return is_picture(e.path()); });
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::error_code none;
  return entries(folder, [&](const fs::directory_entry& e) { return e.is_directory(none); });
}

void check_picture_size(std::uint64_t width, std::uint64_t height, const std::string& path) {
  require(width > 0 && height > 0 && width <= kMostPixels && height <= kMostPixels && width * height <= kMostPixels,
          Error::Kind::io, "{}: a picture of {} × {} pixels cannot be read, it may have 1 to {}", path, width, height,
          kMostPixels);
}

Picture read_picture(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  const auto all = file->bytes();
  const std::string_view start(reinterpret_cast<const char*>(all.data()), std::min<std::size_t>(all.size(), 8));
  if (start == "\x89PNG\r\n\x1a\n") return read_png(all, path);
  if (start.starts_with("\xFF\xD8\xFF")) return read_jpeg(all, path);
  const bool pnm =
      start.size() >= 3 && start[0] == 'P' && std::string_view("2356").find(start[1]) != std::string_view::npos;
  require(pnm, Error::Kind::io, "{}: this is not a PNG, JPEG, PGM or PPM file", path);
  return PnmReader(all, path).read();
}

void append_planes(const Picture& picture, std::size_t channels, std::vector<std::uint8_t>& out) {
  const std::vector<std::uint8_t>& p = picture.pixels;
  const std::size_t count = p.size() / picture.channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < count; ++i) {
      if (picture.channels == 1) {
        out.push_back(p[i]);
      } else if (channels == 3) {
        out.push_back(p[3 * i + c]);
      } else {
        out.push_back(
            static_cast<std::uint8_t>((299 * p[3 * i] + 587 * p[3 * i + 1] + 114 * p[3 * i + 2] + 500) / 1000));
      }
    }
  }
}

Tensor read_image(const std::string& path, int channels) {
  require(channels == 0 || channels == 1 || channels == 3, "read_image: channels must be 0, 1 or 3, got {}", channels);
  const Picture picture = read_picture(path);
  const std::size_t planes = channels == 0 ? picture.channels : static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> pixels;
  append_planes(picture, planes, pixels);
  return from_data(pixels, {static_cast<std::int64_t>(planes), picture.height, picture.width});
}

LabelledImages read_image_folder(const std::string& folder, int channels, std::int64_t height, std::int64_t width) {
  require(channels == 1 || channels == 3, "read_image_folder: channels must be 1 or 3, got {}", channels);
  require(height >= 0 && width >= 0 && (height == 0) == (width == 0),
          "read_image_folder: height and width must both be positive, or both 0 for the size the pictures have, got {} "
          "and {}",
          height, width);
  const bool resize = height > 0;
  LabelledImages out;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  std::string first;
  for (const std::string& kind : folders_in(folder)) {
    for (const std::string& file : picture_files(kind)) {
      Picture picture = read_picture(file);
      if (resize) picture = resized(picture, height, width);
      if (labels.empty()) {
        height = picture.height;
        width = picture.width;
        first = file;
      }
      require(
          picture.height == height && picture.width == width, Error::Kind::io,
          "{}: the picture has {} × {} pixels, but {} has {} × {}; all must have the same size, or be resized to one",
          file, picture.width, picture.height, first, width, height);
      append_planes(picture, static_cast<std::size_t>(channels), pixels);
      labels.push_back(static_cast<std::int64_t>(out.classes.size()));
    }
    out.classes.push_back(fs::path(kind).filename().string());
  }
  require(!labels.empty(), Error::Kind::io, "{}: there are no pictures in FOLDER/CLASS/*.png, .jpg, .ppm or .pgm",
          folder);
  const auto n = static_cast<std::int64_t>(labels.size());
  out.images = from_data(pixels, {n, channels, height, width});
  out.labels = from_data(labels, {n});
  return out;
}

}  // namespace ebb
