#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/json.h"
#include "run_config.h"
#include "target.h"

// The file of `ebb train --config`, JSON or TOML, and the config.json of a run.
EBB_FUZZ_TARGET(settings) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const std::string path = file_of(bytes);
  may_fail([&] {
    CLI::App app;
    program::RunConfig config;
    program::add_settings(app, config);
    try {
      program::read_settings_file(app, path);
      program::resolve(config);
    } catch (const CLI::Error&) {  // wrong usage: main.cc says so
    }
  });
  may_fail([&] {
    const std::string text(bytes.begin(), bytes.end());
    program::config_from_json(io::parse_json(text, 3, path), path);
  });
}
