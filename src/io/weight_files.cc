// SPDX-License-Identifier: MIT
#include "io/weight_files.h"

#include <filesystem>

#include "core/format_error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/new_file.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

}  // namespace

std::string text_of_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

WeightFiles::WeightFiles(const std::string& folder) : folder_(folder) {
  const std::string whole = (fs::path(folder) / kWhole).string(), index = (fs::path(folder) / kIndex).string();
  if (fs::exists(whole)) {
    files_.emplace_back(whole);
    for (const auto& entry : files_[0].entries()) file_of_.emplace(entry.name, 0);
    return;
  }
  require(fs::exists(index), Error::Kind::io,
          "{}: there are no weights, neither model.safetensors nor model.safetensors.index.json", folder);
  const nlohmann::json json = parse_json(text_of_file(index), 4, index);
  require(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(), Error::Kind::io,
          "{}: the weight_map that says which file holds a tensor is missing", index);
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, value] : json["weight_map"].items()) {
    require(value.is_string(), Error::Kind::io, "{}: the file of '{}' is not a name", index, name);
    const auto file = value.get<std::string>();
    require(!file.empty() && file.find('/') == std::string::npos, Error::Kind::io,
            "{}: '{}' is said to be in '{}', which is not a file of this folder", index, name, file);
    const auto [found, first] = opened.emplace(file, files_.size());
    if (first) files_.emplace_back((fs::path(folder) / file).string());
    require(files_[found->second].contains(name), Error::Kind::io, "{}: '{}' is not in {}", index, name, file);
    file_of_.emplace(name, found->second);
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : file_of_) all.push_back(name);
  return all;
}

Tensor WeightFiles::tensor(const std::string& name) const {
  const auto found = file_of_.find(name);
  require(found != file_of_.end(), Error::Kind::io, "{}: the weights have no tensor '{}'", folder_, name);
  return files_[found->second].tensor(name);
}

void save_weight_files(const std::string& folder, const TensorMap& tensors, std::int64_t shard_bytes) {
  std::vector<TensorMap> shards(1);
  std::int64_t total = 0, inside = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::int64_t bytes = tensor.numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
    if (inside > 0 && inside + bytes > shard_bytes) {
      shards.emplace_back();
      inside = 0;
    }
    shards.back().emplace(name, tensor);
    inside += bytes;
    total += bytes;
  }
  const Metadata metadata{{"format", "pt"}};  // what transformers insists on
  const fs::path whole = fs::path(folder) / kWhole, index = fs::path(folder) / kIndex;
  if (shards.size() == 1) {
    save_safetensors(whole.string(), tensors, metadata);
    fs::remove(index);
    return;
  }
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, shards.size());
    save_safetensors((fs::path(folder) / file).string(), shards[k], metadata);
    for (const auto& [name, tensor] : shards[k]) map[name] = file;
  }
  NewFile file(index.string());
  file.write(nlohmann::ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
  file.commit();
  fs::remove(whole);
}

}  // namespace ebb::io
