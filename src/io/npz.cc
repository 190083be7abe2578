// SPDX-License-Identifier: MIT
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "ebb/io.h"
#include "graph/node.h"
#include "io/elements.h"
#include "io/npy.h"
#include "io/zip.h"

namespace ebb::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

}  // namespace

TensorMap load_npz(const std::string& path) {
  const ZipReader zip(MappedFile::open(path));
  TensorMap tensors;
  for (const ZipReader::Entry& entry : zip.entries()) {
    std::string name = entry.name;
    require(name.ends_with(kSuffix), Error::Kind::io, "{}: '{}' in it is not a .npy file", path, name);
    name.resize(name.size() - kSuffix.size());
    std::vector<std::byte> room;
    Tensor tensor = parse_npy(zip.read(entry, room), fmt::format("{}: {}", path, entry.name));
    require(tensors.emplace(name, tensor).second, Error::Kind::io, "{}: '{}' is in it twice", path, name);
  }
  return tensors;
}

void save_npz(const std::string& path, const TensorMap& tensors, const NpzOptions& options) {
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), "save_npz: tensor '{}' for {} has no value", name, path);
    all.push_back(tensor);
  }
  eval(all);  // together, what they share is computed once
  NewFile file(path);
  ZipWriter zip(file);
  for (const auto& [name, tensor] : tensors) {
    zip.add(name + std::string(kSuffix), npy_header(tensor.dtype(), tensor.shape()), host_elements(tensor).bytes,
            options.compress, fmt::format("{}: {}", path, name));
  }
  zip.finish();
  file.commit();
}

}  // namespace ebb::io
