// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

// TensorBoard's event files: TFRecords of `Event` messages, encoded by hand because two messages with a handful of
// fields need no protobuf library.
namespace ebb::program {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial
std::uint32_t masked_crc32c(std::string_view bytes);

// length (u64), masked crc of the length, the bytes, masked crc of the bytes; all little-endian.
std::string tf_record(std::string_view bytes);

// Event{wall_time = 1, file_version = 3}: begins every file.
std::string version_event(double wall_time);
// Event{wall_time = 1, step = 2, summary = 5 {value = 1 {tag = 1, simple_value = 2}}}
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value);

}  // namespace ebb::program
