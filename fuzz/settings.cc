// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/json.h"
#include "run_config.h"
#include "target.h"

namespace {

// Constructed once: making all options takes much longer than reading a file.
struct Settings {
  Settings() { ebb::program::add_settings(app, config); }
  void reset() {
    app.clear();
    config = {};
  }
  CLI::App app;
  ebb::program::RunConfig config;
};

}  // namespace

// The file of `ebb train --config`, JSON or TOML, and the config.json of a run.
EBB_FUZZ_TARGET(settings) {
  using namespace ebb;
  using namespace ebb::fuzz;
  static Settings settings;
  const std::string path = opened_file_of(bytes);
  may_fail([&] {
    settings.reset();
    try {
      program::read_settings_file(settings.app, path);
      program::resolve(settings.config);
    } catch (const CLI::Error&) {  // wrong usage: main.cc says so
    }
  });
  may_fail([&] {
    const std::string text(bytes.begin(), bytes.end());
    program::config_from_json(io::parse_json(text, 3, path), path);
  });
}
