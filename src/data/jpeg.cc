// SPDX-License-Identifier: MIT
// libjpeg's headers need these.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
//
#include <jerror.h>
#include <jpeglib.h>

#include <string_view>

#include "core/format_error.h"
#include "data/picture.h"

namespace ebb {
namespace {

// libjpeg is C and reports errors by longjmp, so no object with a destructor may be constructed between a setjmp and
// the calls below it.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->back, 1);
}

// Cameras write files with these flaws, which lose nothing; after any other warning pixels are made up.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
         code == JWRN_TOO_MUCH_DATA;
}
void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave(info);
}

bool read_jpeg_header(Decoder& d, std::span<const std::byte> file) {
  d.info.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = leave;
  d.errors.emit_message = on_message;
  d.info.client_data = &d;
  if (setjmp(d.back) != 0) return false;
  jpeg_create_decompress(&d.info);
  jpeg_mem_src(&d.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_save_markers(&d.info, JPEG_APP0 + 1, 0xFFFF);  // Exif
  jpeg_read_header(&d.info, TRUE);
  d.info.out_color_space = d.info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

bool read_rows(Decoder& d, std::uint8_t* pixels, std::size_t row_size) {
  if (setjmp(d.back) != 0) return false;
  jpeg_start_decompress(&d.info);
  while (d.info.output_scanline < d.info.output_height) {
    JSAMPROW row = pixels + d.info.output_scanline * row_size;
    jpeg_read_scanlines(&d.info, &row, 1);
  }
  jpeg_finish_decompress(&d.info);
  return true;
}

// How the camera was held, 1 to 8 (CIPA DC-008): tag 0x0112 of the first directory of the TIFF inside an Exif segment.
int orientation(const Decoder& d) {
  for (jpeg_saved_marker_ptr m = d.info.marker_list; m != nullptr; m = m->next) {
    const std::string_view all(reinterpret_cast<const char*>(m->data), m->data_length);
    if (!all.starts_with(std::string_view("Exif\0\0", 6))) continue;
    const std::string_view tiff = all.substr(6);
    const bool little = tiff.starts_with("II");
    const auto number = [&](std::size_t at, std::size_t bytes) -> std::size_t {
      std::size_t value = 0;
      if (at > tiff.size() || bytes > tiff.size() - at) return 0;
      for (std::size_t k = 0; k < bytes; ++k) {
        value = value << 8 | static_cast<unsigned char>(tiff[at + (little ? bytes - 1 - k : k)]);
      }
      return value;
    };
    const std::size_t directory = number(4, 4), entries = number(directory, 2);
    for (std::size_t k = 0; k < entries; ++k) {
      const std::size_t entry = directory + 2 + 12 * k;
      if (number(entry, 2) == 0x0112) return static_cast<int>(number(entry + 8, 2));
    }
  }
  return 1;
}

// Rotates to upright: 2 to 4 mirror and turn by 180°, 5 to 8 also exchange rows and columns.
Picture upright(Picture picture, int held) {
  if (held < 2 || held > 8) return picture;
  const bool exchanged = held >= 5;
  const bool from_right = held == 2 || held == 3 || held == 7 || held == 8;  // of the stored picture
  const bool from_below = held == 3 || held == 4 || held == 6 || held == 7;
  Picture out{
      exchanged ? picture.width : picture.height, exchanged ? picture.height : picture.width, picture.channels, {}};
  out.pixels.reserve(picture.pixels.size());
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      const std::int64_t from_row = from_below ? picture.height - 1 - row : row;
      const std::int64_t from_column = from_right ? picture.width - 1 - column : column;
      const auto at = static_cast<std::ptrdiff_t>(from_row * picture.width + from_column) *
                      static_cast<std::ptrdiff_t>(picture.channels);
      out.pixels.insert(out.pixels.end(), picture.pixels.begin() + at,
                        picture.pixels.begin() + at + static_cast<std::ptrdiff_t>(picture.channels));
    }
  }
  return out;
}

}  // namespace

Picture read_jpeg(std::span<const std::byte> file, const std::string& path) {
  Decoder d;
  require(read_jpeg_header(d, file), Error::Kind::io, "{}: the JPEG cannot be read: {}", path, d.message);
  const std::uint64_t width = d.info.image_width, height = d.info.image_height;
  check_picture_size(width, height, path);
  // A block of 8 × 8 pixels takes at least a bit, or a sixteenth of one with arithmetic coding.
  require(width * height / (64 * 8 * 16) <= file.size(), Error::Kind::io, "{}: {} pixels cannot come out of {} bytes",
          path, width * height, file.size());
  Picture picture{static_cast<std::int64_t>(height),
                  static_cast<std::int64_t>(width),
                  d.info.num_components == 1 ? std::size_t{1} : std::size_t{3},
                  {}};
  const int held = orientation(d);  // reading the rows frees the header's data
  const std::size_t row_size = width * picture.channels;
  picture.pixels.resize(height * row_size);
  require(read_rows(d, picture.pixels.data(), row_size), Error::Kind::io, "{}: the JPEG cannot be read: {}", path,
          d.message);
  return upright(std::move(picture), held);
}

}  // namespace ebb
