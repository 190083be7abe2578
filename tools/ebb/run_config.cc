#include "run_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "ebb/optim/registry.h"
#include "io/json.h"

namespace ebb::program {
namespace {

using nlohmann::json;

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  RunConfig config;
  each_setting(config, [&](const char* name, auto&, const char*, const auto&) { names.emplace_back(name); });
  return names;
}

std::string proposal(const std::string& wrong) {
  const std::vector<std::string> names = setting_names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  return did_you_mean(wrong, views);
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// CLI::IsMember, with a proposal.
CLI::Validator one_of(const std::vector<std::string>& choices) {
  const std::string all = "{" + CLI::detail::join(choices, ",") + "}";
  return CLI::Validator(
      [choices, all](std::string& given) -> std::string {
        const std::vector<std::string_view> names(choices.begin(), choices.end());
        if (std::find(names.begin(), names.end(), given) != names.end()) return "";
        return given + " not in " + all + did_you_mean(given, names);
      },
      all);
}

// JSON as CLI11 sees a file of settings: an object of names with a value, or an array of values, each.
class JsonSettings : public CLI::Config {
 public:
  explicit JsonSettings(std::string path) : path_(std::move(path)) {}
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const json all = io::parse_json(text, 3, path_);
    require(all.is_object(), Error::Kind::io, "{}: expected an object of settings", path_);
    std::vector<CLI::ConfigItem> items;
    for (const auto& [name, value] : all.items()) {
      CLI::ConfigItem item;
      item.name = name;
      if (value.is_array()) {
        for (const json& one : value) item.inputs.push_back(text_of(one));
      } else {
        item.inputs.push_back(text_of(value));
      }
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  std::string path_;
};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerInfo& o : optimizer_registry()) names.emplace_back(o.name);
  return names;
}

void add_settings(CLI::App& app, RunConfig& config) {
  // Where the help begins a new heading.
  const std::map<std::string, std::string> headings{
      {"model", "Network"}, {"data", "Data"}, {"hidden", "Network"}, {"epochs", "Training"}, {"workers", "Running"}};
  std::string heading;
  each_setting(config, [&](const std::string& name, auto& member, const char* help, const auto& choices) {
    if (const auto found = headings.find(name); found != headings.end()) heading = found->second;
    CLI::Option* option = app.add_option("--" + name, member, help)->group(heading);
    if (!choices.empty()) option->check(one_of(choices));
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(member)>, std::vector<std::int64_t>>) {
      option->delimiter(',');
    } else {
      option->capture_default_str();
    }
  });
}

void read_settings_file(CLI::App& app, const std::string& path) {
  std::ifstream file(path);
  require(file.good(), Error::Kind::io, "{}: cannot be read", path);
  std::stringstream text;
  text << file.rdbuf();
  char first = 0;
  text >> first;
  text.seekg(0);
  const auto items = first == '{' ? JsonSettings(path).from_config(text) : CLI::ConfigTOML().from_config(text);
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of sections
    require(item.parents.empty() || item.parents == std::vector<std::string>{"train"}, Error::Kind::io,
            "{}: settings stand outside sections or in [train], '{}' does not", path, item.fullname());
    std::string name = item.name;
    std::replace(name.begin(), name.end(), '_', '-');
    const std::vector<std::string> known = setting_names();
    require(std::find(known.begin(), known.end(), name) != known.end(), Error::Kind::io,
            "{}: there is no setting '{}'{}", path, item.name, proposal(name));
    CLI::Option* option = app.get_option("--" + name);
    if (option->count() > 0) continue;  // the command line decides
    try {
      option->add_result(item.inputs);
      option->run_callback();
    } catch (const CLI::Error& e) {
      throw Error(Error::Kind::io, path + ": " + e.what());
    }
  }
}

json to_json(const RunConfig& config) {
  json all = json::object();
  each_setting(config, [&](const char* name, const auto& member, const char*, const auto&) { all[name] = member; });
  return all;
}

RunConfig config_from_json(const json& all, const std::string& where) {
  require(all.is_object(), Error::Kind::io, "{}: expected an object of settings", where);
  RunConfig config;
  each_setting(config, [&](const char* name, auto& member, const char*, const auto&) {
    const auto found = all.find(name);
    if (found == all.end()) return;
    try {
      found->get_to(member);
    } catch (const json::exception&) {
      fail(Error::Kind::io, "{}: '{}' cannot be {}", where, name, found->dump());
    }
  });
  return config;
}

void resolve(RunConfig& c) {
  const bool gpt = c.model == "gpt";
  const auto at_least = [](const char* name, double value, double least) {
    require(value >= least, "--{} must be at least {}, got {}", name, least, value);
  };
  const auto share = [](const char* name, double value) {
    require(value >= 0 && value < 1, "--{} must lie in [0, 1), got {}", name, value);
  };
  const auto choose = [](auto& value, auto choice) {
    if (value == 0) value = choice;
  };
  if (c.data.empty()) c.data = gpt ? "tales" : "digits";
  if (c.hidden.empty()) c.hidden = {256};
  choose(c.width, gpt ? 128 : 16);
  choose(c.layers, gpt ? 4 : 1);
  choose(c.batch, gpt ? 16 : 64);
  if (c.steps == 0 && c.epochs == 0) c.epochs = gpt ? 4 : c.model == "mlp" ? 10 : 5;
  // Rates that work for the small networks of this program; sign and plain gradient steps have other sizes.
  const double adaptive = gpt ? 2e-3 : c.model == "mlp" ? 1e-3 : 3e-3;
  const bool plain = c.optimizer == "sgd", sign = c.optimizer == "lion";
  choose(c.lr, plain ? 0.05 : sign ? adaptive / 10 : c.optimizer == "lars" ? 1.0 : adaptive);

  for (std::int64_t size : c.hidden) at_least("hidden", static_cast<double>(size), 1);
  for (const auto& [name, value] :
       {std::pair{"train-count", c.train_count}, std::pair{"test-count", c.test_count}, std::pair{"width", c.width},
        std::pair{"layers", c.layers}, std::pair{"heads", c.heads}, std::pair{"context", c.context},
        std::pair{"batch", c.batch}, std::pair{"accumulate", c.accumulate}}) {
    at_least(name, static_cast<double>(value), 1);
  }
  for (const auto& [name, value] :
       {std::pair{"steps", c.steps}, std::pair{"workers", c.workers}, std::pair{"threads", c.threads},
        std::pair{"eval-every", c.eval_every}, std::pair{"checkpoint-every", c.checkpoint_every},
        std::pair{"log-every", c.log_every}}) {
    at_least(name, static_cast<double>(value), 0);
  }
  for (const auto& [name, value] :
       {std::pair{"epochs", c.epochs}, std::pair{"lr", c.lr}, std::pair{"warmup", c.warmup},
        std::pair{"weight-decay", c.weight_decay}, std::pair{"clip", c.clip}, std::pair{"momentum", c.momentum}}) {
    at_least(name, value, 0);
  }
  for (const auto& [name, value] :
       {std::pair{"dropout", c.dropout}, std::pair{"ema", c.ema}, std::pair{"label-smoothing", c.label_smoothing}}) {
    share(name, value);
  }
  require(c.test_fraction > 0 && c.test_fraction < 1, "--test-fraction must lie between 0 and 1, got {}",
          c.test_fraction);
  at_least("tokens", static_cast<double>(c.tokens), 256);
  require(!gpt || c.width % c.heads == 0, "--width {} cannot be divided among --heads {}", c.width, c.heads);
}

}  // namespace ebb::program
