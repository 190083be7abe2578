// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "doctor/findings.h"

// `ebb doctor`: the components found on this machine, those missing and how to get them.
namespace ebb::program {
namespace {

void print_findings(bool as_json) {
  const std::vector<Finding> all = find_environment();
  if (as_json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const Finding& f : all) {
      nlohmann::ordered_json one{{"name", f.name}, {"found", !f.found.empty()}};
      one[f.found.empty() ? "cure" : "what"] = f.found.empty() ? f.cure : f.found;
      out.push_back(std::move(one));
    }
    fmt::print("{}\n", nlohmann::ordered_json{{"version", EBB_VERSION}, {"findings", out}}.dump(2));
    return;
  }
  fmt::print("ebb {}\n", EBB_VERSION);
  std::size_t widest = 0;
  for (const Finding& f : all) widest = std::max(widest, f.name.size());
  for (const Finding& f : all) {
    fmt::print("  {:{}}  {}\n", f.name, widest, f.found.empty() ? "missing: " + f.cure : f.found);
  }
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "Show what Ebb found on this machine, and how to get what is missing");
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] { print_findings(*json); });
}

}  // namespace ebb::program
