// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "commands.h"
#include "core/closest_name.h"
#include "core/format_error.h"
#include "ebb/io.h"
#include "ebb/ops/elementwise.h"

// `ebb convert`: tensors from one file format to another.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

struct Conversion {
  std::string from, to, dtype;
  std::vector<std::string> only;
  bool overwrite = false, compress = false, json = false;
};

struct Converted {
  io::TensorMap tensors;
  io::Metadata metadata{};
};

enum class Format { npy, npz, safetensors };

// By the name: the output file has no bytes yet.
Format format_of(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".npy") return Format::npy;
  if (extension == ".npz") return Format::npz;
  if (extension == ".safetensors") return Format::safetensors;
  fail(Error::Kind::io, "{}: the name must end in .npy, .npz or .safetensors", path);
}

Converted read(const std::string& path) {
  require(fs::exists(path), Error::Kind::io, "{}: there is no such file", path);
  switch (format_of(path)) {
    case Format::npy:
      return {{{fs::path(path).stem().string(), io::load_npy(path)}}};
    case Format::npz:
      return {io::load_npz(path)};
    default: {
      const io::Safetensors file(path);
      return {file.tensors(), file.metadata()};
    }
  }
}

// The requested tensors; an unknown name is an error.
void keep_only(io::TensorMap& tensors, const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) return;
  std::vector<std::string_view> known;
  for (const auto& [name, tensor] : tensors) known.push_back(name);
  io::TensorMap kept;
  for (const std::string& name : names) {
    require(tensors.contains(name), "--only {}: {} has no tensor of that name{}", name, path,
            did_you_mean(name, known));
    kept.emplace(name, tensors.at(name));
  }
  tensors = std::move(kept);
}

void write(const Conversion& c, const Converted& content) {
  switch (format_of(c.to)) {
    case Format::npy:
      require(content.tensors.size() == 1,
              "{}: an .npy file holds one tensor, and there are {}; choose one with --only", c.to,
              content.tensors.size());
      return io::save_npy(c.to, content.tensors.begin()->second);
    case Format::npz:
      return io::save_npz(c.to, content.tensors, {.compress = c.compress});
    default:
      return io::save_safetensors(c.to, content.tensors, content.metadata);
  }
}

void convert(const Conversion& c) {
  format_of(c.to);  // an error before anything is read
  require(c.overwrite || !fs::is_regular_file(c.to), Error::Kind::io, "{}: the file exists; --overwrite replaces it",
          c.to);
  Converted content = read(c.from);
  keep_only(content.tensors, c.only, c.from);
  if (!c.dtype.empty()) {
    const DType dtype = dtype_from_name(c.dtype);
    for (auto& [name, tensor] : content.tensors) {
      if (is_floating(tensor.dtype())) tensor = cast(tensor, dtype);
    }
  }
  write(c, content);
  if (c.json) {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const auto& [name, tensor] : content.tensors) names.push_back(name);
    const nlohmann::ordered_json out{{"file", c.to}, {"tensors", names}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {} tensor{}\n", c.to, content.tensors.size(), content.tensors.size() == 1 ? "" : "s");
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Converts files of tensors: .npy, .npz, .safetensors");
  const auto c = std::make_shared<Conversion>();
  command->add_option("from", c->from, "The file to read")->required();
  command->add_option("to", c->to, "The file to write; its name decides the format")->required();
  command->add_option("--only", c->only, "Names of the tensors to keep, separated by commas")->delimiter(',');
  command->add_option("--dtype", c->dtype, "Convert floating-point tensors to this dtype")
      ->check(one_of({"f64", "f32", "f16", "bf16"}));
  command->add_flag("--compress", c->compress, "Compress an .npz file");
  command->add_flag("--overwrite", c->overwrite, "Replace the file if it exists");
  command->add_flag("--json", c->json, "What was written, as JSON");
  command->footer(
      "ebb convert model.safetensors model.npz\nebb convert model.safetensors small.safetensors --dtype bf16\n"
      "ebb convert model.npz weight.npy --only layer.weight");
  command->callback([c] { convert(*c); });
}

}  // namespace ebb::program
