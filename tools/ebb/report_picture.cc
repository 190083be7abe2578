// SPDX-License-Identifier: MIT
#include <png.h>

#include <algorithm>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "report.h"

namespace ebb::program {
namespace {

std::string base64(const std::string& bytes) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned v = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      v = v << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? digits[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

Paper paper_of(const Tensor& pictures) {
  if (pictures.rank() != 4 || pictures.size(0) == 0) return Paper::none;
  const Tensor some = pictures.slice(0, 0, std::min<std::int64_t>(64, pictures.size(0)));
  const Tensor bright = cast(some, DType::f64) * (some.dtype() == DType::u8 ? 1.0 / 255 : 1.0);
  // A difference between channels means colour.
  if (max(max(bright, Axes{1}) - min(bright, Axes{1})).item() > 0.02) return Paper::none;
  const double dark = mean(cast(bright < 0.1, DType::f64)).item(), light = mean(cast(bright > 0.9, DType::f64)).item();
  return dark > 0.5 ? Paper::black : light > 0.5 ? Paper::white : Paper::none;
}

std::string picture_url(const Tensor& picture) {
  require(picture.rank() == 3 && (picture.size(0) == 1 || picture.size(0) == 3),
          "picture_url: expected [1 or 3, height, width], got {}", picture.shape());
  const Tensor pixels = picture.dtype() == DType::u8 ? picture : clamp(picture, 0.0, 1.0) * 255.0;
  std::string bytes;
  for (double v : contiguous(permute(pixels, {1, 2, 0})).to_vector())
    bytes += static_cast<char>(static_cast<int>(v + 0.5));

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.size(2));
  image.height = static_cast<png_uint_32>(picture.size(1));
  image.format = picture.size(0) == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string file(bytes.size() * 2 + 4096, '\0');
  png_alloc_size_t size = file.size();
  const int done = png_image_write_to_memory(&image, file.data(), &size, 0, bytes.data(), 0, nullptr);
  require(done != 0, Error::Kind::io, "a picture of the report cannot be packed: {}", image.message);
  file.resize(size);
  return "data:image/png;base64," + base64(file);
}

}  // namespace ebb::program
