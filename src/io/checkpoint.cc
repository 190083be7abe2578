// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "core/format_error.h"
#include "ebb/io.h"
#include "graph/node.h"
#include "io/checkpoint_layout.h"
#include "io/deflate.h"
#include "io/elements.h"

namespace ebb::io {
namespace {

constexpr const char* kOwn = "ebb.";  // prefix of the checkpoint's own metadata
constexpr const char* kVersion = "ebb.checkpoint";
constexpr const char* kChecksum = "ebb.crc32";         // of everything
constexpr const char* kTensorChecksum = "ebb.crc32.";  // with the tensor's name after it

template <class T>
T number(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  require(found != metadata.end(), Error::Kind::io, "{}: this is not a complete checkpoint, '{}' is missing", path,
          key);
  const std::string& text = found->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), Error::Kind::io,
          "{}: '{}' of the checkpoint is not a number: '{}'", path, key, text);
  return value;
}

std::string hexadecimal(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

// Checksum of the elements and of the header, which holds everything but the checksum itself.
std::string checksum(std::uint32_t elements, const std::string& header) {
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(header.data()), header.size());
  return hexadecimal(crc32_of(text, elements));
}

// Throws if the contents are not what was saved, and names the tensors that differ. Files of the first versions have no
// checksum per tensor.
void verify(const Safetensors& file, const Metadata& metadata, const std::string& expected) {
  const std::span<const std::byte> data = SafetensorsAccess::data(file);
  const std::string found = checksum(crc32_of(data), header_text(file.entries(), metadata));
  if (found == expected) return;
  std::vector<std::string> damaged;
  bool known = true;
  for (const Safetensors::Entry& entry : file.entries()) {
    const auto sum = metadata.find(kTensorChecksum + entry.name);
    known &= sum != metadata.end();
    if (known && hexadecimal(crc32_of(data.subspan(entry.begin, entry.end - entry.begin))) != sum->second) {
      damaged.push_back("'" + entry.name + "'");
    }
  }
  constexpr std::size_t kNamed = 5;
  const std::size_t more = damaged.size() > kNamed ? damaged.size() - kNamed : 0;
  damaged.resize(damaged.size() - more);
  const std::string what = !known ? ""
                           : damaged.empty()
                               ? " in its header"
                               : fmt::format(" in tensor{} {}{}", damaged.size() > 1 ? "s" : "",
                                             fmt::join(damaged, ", "), more ? fmt::format(" and {} more", more) : "");
  fail(Error::Kind::io, "{}: the checkpoint is damaged{}, its checksum is {} and not {}", file.path(), what, found,
       expected);
}

}  // namespace

std::string previous_checkpoint(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + ".previous" + whole.extension().string())).string();
}

CheckpointLayout::CheckpointLayout(const std::string& path, const Checkpoint& c, std::vector<NewTensor> tensors)
    : path_(path), metadata_(c.metadata), entries_(placed(std::move(tensors), path)) {
  for (const auto& [key, value] : c.metadata) {
    require(!key.starts_with(kOwn), "save_checkpoint: metadata '{}' for {} begins with '{}', which is reserved", key,
            path, kOwn);
  }
  metadata_[kVersion] = std::to_string(1);
  metadata_["ebb.step"] = std::to_string(c.step);
  metadata_["ebb.random.seed"] = std::to_string(c.random.seed);
  metadata_["ebb.random.next_operation"] = std::to_string(c.random.next_operation);
  metadata_["ebb.loader.seed"] = std::to_string(c.loader.seed);
  metadata_["ebb.loader.epoch"] = std::to_string(c.loader.epoch);
  metadata_["ebb.loader.batch"] = std::to_string(c.loader.batch);
  for (const Safetensors::Entry& e : entries_) metadata_[kTensorChecksum + e.name] = hexadecimal(0);
}

std::string CheckpointLayout::head(const std::map<std::string, std::uint32_t>& checksums) const {
  Metadata metadata = metadata_;
  std::uint32_t crc = 0;
  for (const Safetensors::Entry& e : entries_) {
    const std::uint32_t own = checksums.at(e.name);
    crc = crc32_joined(crc, own, e.end - e.begin);
    metadata[kTensorChecksum + e.name] = hexadecimal(own);
  }
  metadata[kChecksum] = checksum(crc, header_text(entries_, metadata));
  return file_head(entries_, metadata, path_);
}

// Checksums have a fixed length.
std::uint64_t CheckpointLayout::data_begin() const {
  Metadata metadata = metadata_;
  metadata[kChecksum] = hexadecimal(0);
  return file_head(entries_, metadata, path_).size();
}

void commit_checkpoint(NewFile& file, const std::string& path, const SaveOptions& options) {
  if (options.keep_previous) {
    file.commit_keeping(previous_checkpoint(path));
  } else {
    file.commit();
  }
}

TensorMap named_tensors(const Checkpoint& c) {
  TensorMap tensors;
  for (const auto& [name, tensor] : c.parameters) tensors.emplace(kParametersPrefix + name, tensor);
  for (const auto& [name, tensor] : c.optimizer) tensors.emplace(kOptimizerPrefix + name, tensor);
  return tensors;
}

void save_checkpoint(const std::string& path, const Checkpoint& c, const SaveOptions& options) {
  const TensorMap tensors = named_tensors(c);
  std::vector<NewTensor> list;
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), "save_checkpoint: tensor '{}' for {} has no value", name, path);
    list.push_back({name, tensor.dtype(), tensor.shape()});
    values.push_back(tensor);
  }
  eval(values);  // together, so that shared values are computed once
  const CheckpointLayout layout(path, c, std::move(list));
  std::map<std::string, std::uint32_t> checksums;
  for (const auto& [name, tensor] : tensors) checksums[name] = crc32_of(host_elements(tensor).bytes);
  NewFile file(path);
  file.write(layout.head(checksums));
  for (const Safetensors::Entry& e : layout.entries()) {
    const HostElements elements = host_elements(tensors.at(e.name));
    file.write(elements.bytes.data(), elements.bytes.size());
  }
  commit_checkpoint(file, path, options);
}

namespace {

Checkpoint read_checkpoint(const std::string& path) {
  const Safetensors file(path);
  Metadata metadata = file.metadata();
  const auto version = number<std::int64_t>(metadata, kVersion, path);
  require(version == 1, Error::Kind::io, "{}: checkpoint version {} is unknown, 1 can be read", path, version);
  const auto sum = metadata.find(kChecksum);
  require(sum != metadata.end(), Error::Kind::io, "{}: this is not a complete checkpoint, '{}' is missing", path,
          kChecksum);
  const std::string expected = sum->second;
  metadata.erase(sum);
  verify(file, metadata, expected);

  Checkpoint c;
  c.step = number<std::int64_t>(metadata, "ebb.step", path);
  c.random.seed = number<std::uint64_t>(metadata, "ebb.random.seed", path);
  c.random.next_operation = number<std::uint64_t>(metadata, "ebb.random.next_operation", path);
  c.loader.seed = number<std::uint64_t>(metadata, "ebb.loader.seed", path);
  c.loader.epoch = number<std::int64_t>(metadata, "ebb.loader.epoch", path);
  c.loader.batch = number<std::int64_t>(metadata, "ebb.loader.batch", path);
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kOwn)) c.metadata.emplace(key, value);
  }
  for (const Safetensors::Entry& entry : file.entries()) {
    const auto take = [&](std::string_view prefix, TensorMap& into) {
      if (!entry.name.starts_with(prefix)) return false;
      return into.emplace(entry.name.substr(prefix.size()), file.tensor(entry.name)).second;
    };
    require(take(kParametersPrefix, c.parameters) || take(kOptimizerPrefix, c.optimizer), Error::Kind::io,
            "{}: tensor '{}' of the checkpoint belongs neither to the parameters nor to the optimizer", path,
            entry.name);
  }
  return c;
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path) {
  try {
    return read_checkpoint(path);
  } catch (const Error& error) {
    const std::string previous = previous_checkpoint(path);
    std::error_code none;
    if (error.kind() != Error::Kind::io || !std::filesystem::exists(previous, none)) throw;
    std::optional<std::int64_t> step;
    try {
      step = read_checkpoint(previous).step;
    } catch (const Error&) {
    }
    if (!step) throw;
    fail(Error::Kind::io, "{}; the one before it, {} of step {}, is intact: rename it to go on from there",
         error.what(), previous, *step);
  }
}

}  // namespace ebb::io
