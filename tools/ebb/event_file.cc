// SPDX-License-Identifier: MIT
#include "event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace ebb::program {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    table[n] = c;
  }
  return table;
}
constexpr auto kChecksums = make_table();

template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t k = 0; k < sizeof value; ++k) bytes += static_cast<char>(value >> 8 * k & 0xff);
  return bytes;
}

// Protobuf's wire format: seven bits per byte, the lowest first.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes += static_cast<char>(value);
}

// A field begins with its number and the type of its value.
enum Wire { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };
std::string key(int number, Wire wire) { return varint(static_cast<std::uint64_t>(number << 3 | wire)); }
std::string event_field(int number, double value) {
  return key(number, kEight) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string event_field(int number, float value) {
  return key(number, kFour) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string event_field(int number, std::int64_t value) {
  return key(number, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string event_field(int number, std::string_view bytes) {
  return key(number, kBytes) + varint(bytes.size()) + std::string(bytes);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t c = ~0u;
  for (char byte : bytes) c = kChecksums[(c ^ static_cast<unsigned char>(byte)) & 255] ^ c >> 8;
  return ~c;
}

// A checksum of bytes that contain their own checksum is weak, so TensorFlow rotates and offsets it.
std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string tf_record(std::string_view bytes) {
  const std::string length = little_endian(std::uint64_t{bytes.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(bytes) + little_endian(masked_crc32c(bytes));
}

std::string version_event(double wall_time) {
  return event_field(1, wall_time) + event_field(3, std::string_view("brain.Event:2"));
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value) {
  const std::string summary = event_field(1, std::string_view(event_field(1, tag) + event_field(2, value)));
  return event_field(1, wall_time) + event_field(2, step) + event_field(5, std::string_view(summary));
}

}  // namespace ebb::program
