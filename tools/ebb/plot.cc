// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "core/format_error.h"
#include "io/new_file.h"
#include "loss_name.h"
#include "loss_options.h"
#include "loss_pictures.h"

// `ebb plot`: a loss and its gradient as SVG.
namespace ebb::program {
namespace {

void write_picture(const std::string& path, const LossCurve& curve) {
  io::NewFile file(path);
  file.write(draw(curve));
  file.commit();
}

void plot_one(const std::string& loss, std::string out, const LossOptionValues& options) {
  const LossCurve curve = loss_curve(loss, options);
  if (out == "-") {
    fmt::print("{}", draw(curve));
    return;
  }
  if (out.empty()) out = loss + ".svg";
  const std::string kind = std::filesystem::path(out).extension();
  require(kind.empty() || kind == ".svg", "plot: --out {}: pictures are drawn as SVG; let the name end in .svg", out);
  write_picture(out, curve);
  fmt::print("{}\n", out);
}

void plot_gallery(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const LossInfo& loss : loss_registry()) {
    const LossCurve curve = loss_curve(loss.name);
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      require(std::isfinite(curve.value[i] + curve.gradient[i]), "plot: {} at {} is {}, its gradient {}", loss.name,
              curve.x[i], curve.value[i], curve.gradient[i]);
    }
    write_picture((folder / (std::string(loss.name) + ".svg")).string(), curve);
  }
  fmt::print("{} pictures in {}\n", loss_registry().size(), folder.string());
}

}  // namespace

void add_plot_command(CLI::App& app) {
  struct Options {
    std::string name, out, gallery;
    std::vector<std::string> options;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plot", "Draw a loss and its gradient over the prediction, as SVG");
  CLI::Option* name = add_loss_name(*command, o->name);
  command->add_option("--out", o->out, "The file; - is the standard output; default: NAME.svg")->type_name("FILE");
  add_loss_options(*command, o->options);
  command->add_option("--gallery", o->gallery, "Draw all losses into this folder")->type_name("FOLDER")->excludes(name);
  command->callback([o] {
    if (!o->gallery.empty()) return plot_gallery(o->gallery);
    if (o->name.empty()) throw CLI::RequiredError("name");
    plot_one(o->name, o->out, loss_options(o->name, o->options));
  });
}

}  // namespace ebb::program
