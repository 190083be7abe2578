// SPDX-License-Identifier: MIT
#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/format_error.h"
#include "ebb/ops/create.h"
#include "graph/node.h"
#include "io/elements.h"
#include "io/json.h"
#include "io/mapped_file.h"

// The format: the header's length (8 bytes, little-endian), the header (JSON), the elements. The header maps names to
// {"dtype", "shape", "data_offsets": [begin, end]} and "__metadata__" to strings.
namespace ebb::io {
namespace {

constexpr std::uint64_t kLongestJson = 100'000'000;  // the reference implementation's bound
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  const char* name;
  std::uint64_t bits;
  std::optional<FileType> type;  // none: valid in the format, unknown to Ebb
};
constexpr TypeName kTypes[] = {{"F64", 64, FileType::f64},   {"F32", 32, FileType::f32},   {"F16", 16, FileType::f16},
                               {"BF16", 16, FileType::bf16}, {"I64", 64, FileType::i64},   {"I32", 32, FileType::i32},
                               {"I16", 16, FileType::i16},   {"I8", 8, FileType::i8},      {"U64", 64, FileType::u64},
                               {"U32", 32, FileType::u32},   {"U16", 16, FileType::u16},   {"U8", 8, FileType::u8},
                               {"BOOL", 8, FileType::bool_}, {"F8_E4M3", 8, std::nullopt}, {"F8_E5M2", 8, std::nullopt},
                               {"F8_E8M0", 8, std::nullopt}, {"C64", 64, std::nullopt}};

const TypeName* type_named(const std::string& name) {
  for (const TypeName& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const char* name_of(DType dtype) {
  for (const TypeName& type : kTypes) {
    if (type.type == file_type(dtype)) return type.name;
  }
  return "";
}

std::vector<std::uint64_t> numbers(const nlohmann::json& list, const std::string& where, const char* key) {
  require(list.is_array(), Error::Kind::io, "{}: '{}' is not a list", where, key);
  std::vector<std::uint64_t> out;
  for (const auto& item : list) {
    require(item.is_number_unsigned(), Error::Kind::io, "{}: '{}' contains something that is not a whole number", where,
            key);
    out.push_back(item.get<std::uint64_t>());
  }
  return out;
}

Safetensors::Entry entry_from(const std::string& name, const nlohmann::json& json, std::uint64_t data,
                              const std::string& path) {
  const std::string where = fmt::format("{}: tensor '{}'", path, name);
  require(json.is_object() && json.size() == 3 && json.contains("dtype") && json.contains("shape") &&
              json.contains("data_offsets") && json["dtype"].is_string(),
          Error::Kind::io, "{}: its header must have exactly 'dtype', 'shape' and 'data_offsets'", where);
  Safetensors::Entry entry;
  entry.name = name;
  entry.dtype = json["dtype"].get<std::string>();
  const TypeName* type = type_named(entry.dtype);
  require(type, Error::Kind::io, "{}: dtype '{}' is unknown", where, entry.dtype);
  entry.shape = shape_from_file(numbers(json["shape"], where, "shape"), where);
  const std::vector<std::uint64_t> offsets = numbers(json["data_offsets"], where, "data_offsets");
  require(offsets.size() == 2 && offsets[0] <= offsets[1], Error::Kind::io,
          "{}: 'data_offsets' must be a begin and an end after it, got [{}]", where, fmt::join(offsets, ", "));
  entry.begin = offsets[0];
  entry.end = offsets[1];
  require(entry.end <= data, Error::Kind::io, "{}: its bytes [{}, {}) go past the {} bytes of data", where, entry.begin,
          entry.end, data);
  const std::uint64_t bytes = static_cast<std::uint64_t>(entry.shape.numel()) * type->bits / 8;
  require(entry.end - entry.begin == bytes, Error::Kind::io, "{}: shape {} of {} takes {} bytes, the file gives it {}",
          where, entry.shape, entry.dtype, bytes, entry.end - entry.begin);
  return entry;
}

}  // namespace

struct Safetensors::File {
  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> data;
  std::vector<Entry> entries;
  std::unordered_map<std::string, std::size_t> by_name;
  Metadata metadata;
};

Safetensors::Safetensors(const std::string& path) {
  auto opened = std::make_shared<File>();
  opened->file = MappedFile::open(path);
  const std::span<const std::byte> all = opened->file->bytes();
  require(all.size() >= 8, Error::Kind::io, "{}: this is not a safetensors file, it has only {} bytes", path,
          all.size());
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<std::uint64_t>(all[i]);
  require(all.size() == 8 || all[8] == std::byte{'{'} || length <= kLongestJson, Error::Kind::io,
          "{}: this is not a safetensors file: it does not begin with the length of a header and the header", path);
  require(length <= kLongestJson, Error::Kind::io,
          "{}: a header of {} bytes is longer than the {} a safetensors file may have", path, length, kLongestJson);
  require(length <= all.size() - 8, Error::Kind::io, "{}: its header has {} bytes, but the file ends after {}", path,
          length, all.size() - 8);
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + 8, length);
  require(text.starts_with('{'), Error::Kind::io,
          "{}: this is not a safetensors file, its header does not begin with '{{'", path);
  const nlohmann::json header = parse_json(text, 3, path);
  opened->data = all.subspan(8 + length);

  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata) {
      require(json.is_object(), Error::Kind::io, "{}: its __metadata__ is not an object", path);
      for (const auto& [key, value] : json.items()) {
        require(value.is_string(), Error::Kind::io, "{}: '{}' in its __metadata__ is not a string", path, key);
        opened->metadata.emplace(key, value.get<std::string>());
      }
    } else {
      opened->entries.push_back(entry_from(name, json, opened->data.size(), path));
    }
  }
  // Every byte belongs to exactly one tensor.
  std::vector<Entry>& entries = opened->entries;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    require(entries[i].begin == next, Error::Kind::io, "{}: tensor '{}' begins at byte {}, {} byte {}", path,
            entries[i].name, entries[i].begin,
            entries[i].begin < next ? "inside the one before, which ends at" : "but nothing holds the bytes from",
            next);
    next = entries[i].end;
    opened->by_name.emplace(entries[i].name, i);
  }
  require(next == opened->data.size(), Error::Kind::io,
          "{}: its tensors have {} bytes, the file has {} after its header", path, next, opened->data.size());
  file_ = std::move(opened);
}

const std::string& Safetensors::path() const { return file_->file->path(); }
const std::vector<Safetensors::Entry>& Safetensors::entries() const { return file_->entries; }
const Metadata& Safetensors::metadata() const { return file_->metadata; }
bool Safetensors::contains(const std::string& name) const { return file_->by_name.contains(name); }

Tensor Safetensors::tensor(const std::string& name) const {
  const auto found = file_->by_name.find(name);
  require(found != file_->by_name.end(), Error::Kind::io, "{}: it has no tensor '{}'", path(), name);
  const Entry& entry = file_->entries[found->second];
  const std::string where = fmt::format("{}: tensor '{}'", path(), name);
  const std::optional<FileType> type = type_named(entry.dtype)->type;
  require(type.has_value(), Error::Kind::io, "{}: there are no tensors of dtype {}", where, entry.dtype);
  const std::span<const std::byte> bytes = file_->data.subspan(entry.begin, entry.end - entry.begin);
  const bool narrow = size_of(*type) != ebb::size_of(stored_as(*type)) || *type == FileType::u64;
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(*type) == 0;
  if (narrow || !aligned || bytes.empty()) return tensor_from_elements(bytes, *type, entry.shape, false, where);
  if (*type == FileType::bool_) check_bools(bytes, where);
  return from_foreign(const_cast<std::byte*>(bytes.data()), stored_as(*type), entry.shape, [keep = file_->file] {})
      .to(default_device());
}

TensorMap Safetensors::tensors() const {
  TensorMap all;
  for (const Entry& entry : entries()) all.emplace(entry.name, tensor(entry.name));
  return all;
}

std::span<const std::byte> SafetensorsAccess::data(const Safetensors& file) { return file.file_->data; }

// ---- writing --------------------------------------------------------------------------------------------------------

std::vector<Safetensors::Entry> placed(std::vector<NewTensor> tensors, const std::string& path) {
  for (const NewTensor& t : tensors)
    require(t.name != kMetadata, "save_safetensors: a tensor for {} cannot have the name '{}'", path, kMetadata);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return ebb::size_of(a.dtype) > ebb::size_of(b.dtype); });
  std::vector<Safetensors::Entry> entries;
  std::uint64_t at = 0;
  for (const NewTensor& t : tensors) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(t.shape.numel()) * ebb::size_of(t.dtype);
    entries.push_back({t.name, name_of(t.dtype), t.shape, at, at + bytes});
    at += bytes;
  }
  return entries;
}

SafetensorsLayout::SafetensorsLayout(const TensorMap& all, const std::string& path) : tensors(all) {
  std::vector<Tensor> values;
  std::vector<NewTensor> list;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), "save_safetensors: tensor '{}' for {} has no value", name, path);
    values.push_back(tensor);
    list.push_back({name, tensor.dtype(), tensor.shape()});
  }
  eval(values);  // together, so that shared values are computed once
  entries = placed(std::move(list), path);
}

std::string header_text(std::vector<Safetensors::Entry> entries, const Metadata& metadata) {
  // Readers sort the same way; tensors without elements share an offset.
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string text = "{";
  const auto add = [&](const std::string& key, const std::string& value) {
    text += (text.size() > 1 ? "," : "") + key + ":" + value;
  };
  try {
    if (!metadata.empty()) {
      std::string all = "{";
      for (const auto& [key, value] : metadata) {
        all += (all.size() > 1 ? "," : "") + quoted(key) + ":" + quoted(value);
      }
      add(quoted(kMetadata), all + "}");
    }
    for (const auto& entry : entries) {
      add(quoted(entry.name),
          fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", entry.dtype,
                      fmt::join(entry.shape.begin(), entry.shape.end(), ","), entry.begin, entry.end));
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(Error::Kind::io, "save_safetensors: a name or a piece of metadata is not UTF-8");
  }
  return text + "}";
}

std::string file_head(const std::vector<Safetensors::Entry>& entries, const Metadata& metadata,
                      const std::string& path) {
  std::string text = header_text(entries, metadata);
  text += std::string((8 - text.size() % 8) % 8, ' ');
  require(text.size() <= kLongestJson, Error::Kind::io, "{}: its header would have {} bytes, {} are allowed", path,
          text.size(), kLongestJson);
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> 8 * i & 255);
  return length + text;
}

void SafetensorsLayout::write(NewFile& file, const Metadata& metadata, const std::string& path) const {
  file.write(file_head(entries, metadata, path));
  for (const Safetensors::Entry& entry : entries) {
    const HostElements elements = host_elements(tensors.at(entry.name));
    file.write(elements.bytes.data(), elements.bytes.size());
  }
}

TensorMap load_safetensors(const std::string& path) { return Safetensors(path).tensors(); }

void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata) {
  const SafetensorsLayout layout(tensors, path);
  NewFile file(path);
  layout.write(file, metadata, path);
  file.commit();
}

}  // namespace ebb::io
