// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "commands.h"
#include "ebb/losses/registry.h"
#include "graph/op_table.h"
#include "loss_name.h"
#include "text_table.h"

// `ebb losses` and `ebb ops`: lists from the registry and the op table.
namespace ebb::program {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const auto& items, const auto& keep) {
  std::vector<std::string_view> names;
  for (const auto& item : items) {
    if (keep(item)) names.push_back(item.name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

Json loss_as_json(const LossInfo& loss) {
  Json inputs = Json::array(), options = Json::array();
  for (const LossInput& i : loss.inputs) {
    inputs.push_back({{"name", i.name}, {"differentiable", i.differentiable}, {"optional", i.optional}});
  }
  for (const LossOption& o : loss.options) {
    options.push_back({{"name", o.name}, {"default", o.default_value}, {"meaning", o.meaning}});
  }
  return {{"name", loss.name}, {"family", loss.family}, {"formula", loss.formula},
          {"inputs", inputs},  {"options", options},    {"docs", loss.docs()}};
}

std::string in_full(const LossInfo& loss) {
  std::vector<std::pair<std::string, std::string>> inputs, options;
  for (const LossInput& i : loss.inputs) {
    std::string marks = i.differentiable ? "has a gradient" : "no gradient";
    if (i.optional) marks += ", optional";
    inputs.emplace_back(i.name, marks);
  }
  for (const LossOption& o : loss.options) {
    options.emplace_back(fmt::format("{} = {}", o.name, o.default_value), o.meaning);
  }
  std::string text = fmt::format("{} ({})\n  {}\n\ninputs\n{}\noptions\n{}\n{}\n", loss.name, loss.family, loss.formula,
                                 text_list(inputs, 2), text_list(options, 2), loss.docs());
  return text;
}

void list_losses(const std::string& name, const std::string& family, bool json) {
  if (!name.empty()) {
    const LossInfo& loss = loss_info(name);
    fmt::print("{}", json ? loss_as_json(loss).dump(2) + "\n" : in_full(loss));
    return;
  }
  Json all = Json::array();
  TextTable table({"loss", "family", "formula of a term", "gradients to", "options"});
  const auto any = [](const auto&) { return true; };
  for (const LossInfo& loss : loss_registry()) {
    if (!family.empty() && loss.family != family) continue;
    if (json) {
      all.push_back(loss_as_json(loss));
      continue;
    }
    table.add({std::string(loss.name), std::string(loss.family), std::string(loss.formula),
               joined(loss.inputs, [](const LossInput& i) { return i.differentiable; }), joined(loss.options, any)});
  }
  fmt::print("{}", json ? all.dump(2) + "\n" : table.str());
}

void list_ops(bool json) {
  Json all = Json::array();
  TextTable table({"operation", "class", "inputs", "gradient"}, {2});
  for (const OpInfo& op : kOpTable) {
    const std::string arity = op.arity < 0 ? "any" : std::to_string(op.arity);
    const std::string cls(name(op.cls)), grad(name(op.grad));
    if (json) {
      all.push_back({{"name", op.name}, {"class", cls}, {"inputs", op.arity}, {"gradient", grad}});
    } else {
      table.add({std::string(op.name), cls, arity, grad});
    }
  }
  fmt::print("{}", json ? all.dump(2) + "\n" : table.str());
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const LossInfo& loss : loss_registry()) {
    if (names.empty() || names.back() != loss.family) names.emplace_back(loss.family);
  }
  return names;
}

}  // namespace

void add_losses_command(CLI::App& app) {
  struct Options {
    std::string name, family;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("losses", "List the losses, or show one in full");
  add_loss_name(*command, o->name);
  command->add_option("--family", o->family, "Only the losses of this family")->check(one_of(families()));
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { list_losses(o->name, o->family, o->json); });
}

void add_ops_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("ops", "List the operations: class, number of inputs, gradient");
  command->add_flag("--json", *json, "As JSON; inputs is -1 where any number may be given");
  command->callback([json] { list_ops(*json); });
}

}  // namespace ebb::program
