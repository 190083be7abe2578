// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/format_error.h"
#include "cuda/backend.h"
#include "ebb/io.h"
#include "ebb/memory.h"
#include "text_table.h"

// `ebb info`: the contents of a file of tensors, or the available devices.
namespace ebb::program {
namespace {

struct Content {
  struct Item {
    std::string name, dtype;
    Shape shape;
    std::uint64_t bytes = 0;
  };
  std::string format;
  std::vector<Item> tensors;
  io::Metadata metadata{};
};

Content::Item item_of(const std::string& name, const Tensor& x) {
  const auto bytes = static_cast<std::uint64_t>(x.numel()) * size_of(x.dtype());
  return {name, std::string(ebb::name(x.dtype())), x.shape(), bytes};
}

// The first bytes decide the format, whatever the file's name.
Content read_content(const std::string& path) {
  const std::filesystem::path inside = std::filesystem::path(path) / "checkpoint.safetensors";
  require(!std::filesystem::is_directory(path), Error::Kind::io, "{}: this is a folder, not a file{}", path,
          std::filesystem::exists(inside) ? fmt::format("; did you mean {}?", inside.string()) : "");
  std::ifstream file(path, std::ios::binary);
  require(file.good(), Error::Kind::io, "{}: the file cannot be opened", path);
  std::string start(6, '\0');
  file.read(start.data(), 6);
  if (start == "\x93NUMPY") return {"npy", {item_of("", io::load_npy(path))}};
  if (start.starts_with("PK")) {
    Content c{"npz", {}};
    for (const auto& [name, tensor] : io::load_npz(path)) c.tensors.push_back(item_of(name, tensor));
    return c;
  }
  const io::Safetensors tensors(path);
  Content c{tensors.metadata().contains("ebb.checkpoint") ? "checkpoint" : "safetensors", {}, tensors.metadata()};
  for (const auto& e : tensors.entries()) c.tensors.push_back({e.name, e.dtype, e.shape, e.end - e.begin});
  if (c.format == "checkpoint") io::load_checkpoint(path);  // its checksum
  return c;
}

std::string readable_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double size = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (size < 1024) break;
    size /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", size, unit);
}

void print_info(const std::string& path, bool json) {
  const Content c = read_content(path);
  std::uint64_t elements = 0, bytes = 0;
  for (const auto& t : c.tensors) {
    elements += static_cast<std::uint64_t>(t.shape.numel());
    bytes += t.bytes;
  }
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& t : c.tensors) {
      list.push_back({{"name", t.name},
                      {"dtype", t.dtype},
                      {"shape", std::vector<std::int64_t>(t.shape.begin(), t.shape.end())},
                      {"bytes", t.bytes}});
    }
    const nlohmann::ordered_json all{{"file", path},           {"format", c.format},   {"tensors", list},
                                     {"metadata", c.metadata}, {"elements", elements}, {"bytes", bytes}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {}, {} tensor{}, {} elements, {}\n", path, c.format, c.tensors.size(),
             c.tensors.size() == 1 ? "" : "s", elements, readable_bytes(bytes));
  TextTable table({"tensor", "dtype", "shape", "size"}, {3});
  for (const auto& t : c.tensors)
    table.add({t.name.empty() ? "-" : t.name, t.dtype, t.shape.str(), readable_bytes(t.bytes)});
  fmt::print("\n{}", table.str());
  if (c.metadata.empty()) return;
  fmt::print("\nmetadata\n{}", text_list({c.metadata.begin(), c.metadata.end()}, 2));
}

// The devices of this machine, and the reason if there is no GPU.
void print_devices(bool as_json) {
  std::vector<std::pair<std::string, std::string>> devices{{"cpu", fmt::format("{} threads", num_threads())}};
  for (int i = 0; i < cuda::count(); ++i) devices.emplace_back(fmt::format("cuda:{}", i), cuda::describe(i));
  const std::string reason = cuda::count() ? "" : cuda::why_unavailable(0);
  if (as_json) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [name, what] : devices) all.push_back({{"device", name}, {"description", what}});
    fmt::print("{}\n", nlohmann::json{{"devices", all}, {"no_gpu", reason}}.dump(2));
    return;
  }
  fmt::print("{}", text_list(devices, 0));
  if (!reason.empty()) fmt::print("no GPU: {}\n", reason);
}

}  // namespace

void add_info_command(CLI::App& app) {
  struct Options {
    std::string file;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("info", "Show what a .npy, .npz, .safetensors or checkpoint file holds, or the devices");
  command
      ->add_option("file", o->file,
                   "The file; a checkpoint's checksum is verified. Without one: the devices of this machine")
      ->type_name("FILE");
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { o->file.empty() ? print_devices(o->json) : print_info(o->file, o->json); });
}

}  // namespace ebb::program
