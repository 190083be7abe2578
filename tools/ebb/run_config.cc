// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "run_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "choices.h"
#include "core/closest_name.h"
#include "core/format_error.h"
#include "ebb/optim/registry.h"
#include "io/json.h"
#include "io/text_file.h"

namespace ebb::program {
namespace {

using nlohmann::json;

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// JSON as CLI11 reads settings: an object that maps names to values or arrays of values.
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

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name != "config" && name != "help") names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerInfo& o : optimizer_registry()) names.emplace_back(o.name);
  return names;
}

void add_settings(CLI::App& app, RunConfig& config) {
  // First setting under each heading of the help.
  const std::map<std::string, std::string> headings{
      {"model", "Network"}, {"data", "Data"}, {"hidden", "Network"}, {"epochs", "Training"}, {"workers", "Running"}};
  std::string heading;
  each_setting(config, [&](const std::string& name, auto& member, const char* help, const auto& choices) {
    if (const auto found = headings.find(name); found != headings.end()) heading = found->second;
    CLI::Option* option = app.add_option("--" + name, member, help)->group(heading);
    if (!choices.empty()) option->check(one_of(choices));
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (!std::is_same_v<Member, std::string> && !std::is_arithmetic_v<Member>) {
      option->delimiter(',')->allow_extra_args(false);
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
  const std::vector<std::string> names = long_names(app);
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of sections
    require(item.parents.empty() || item.parents == std::vector<std::string>{"train"}, Error::Kind::io,
            "{}: settings are outside sections or in [train], '{}' is not", path, item.fullname());
    std::string name = item.name;
    std::replace(name.begin(), name.end(), '_', '-');
    CLI::Option* option = app.get_option_no_throw("--" + name);
    require(option != nullptr && name != "config" && name != "help", Error::Kind::io, "{}: there is no setting '{}'{}",
            path, item.name, did_you_mean(name, views));
    if (option->count() > 0) continue;  // the command line takes precedence
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
  // Values of runs made before these settings existed.
  config.activation = "relu";
  config.label_smoothing = config.validation_fraction = 0;
  config.patience = 0;
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

namespace {

// Rejects settings that the tensor-parallel network does not have.
void require_divisible(const RunConfig& c) {
  require(c.model == "gpt", "--tensor-parallel divides --model gpt, not {}", c.model);
  require(c.heads % c.tensor_parallel == 0, "--tensor-parallel {}: --heads {} cannot be divided into so many parts",
          c.tensor_parallel, c.heads);
  require(c.shards <= 1, "--tensor-parallel: all ranks compute the whole batch, --shards must be 1, got {}", c.shards);
  require(c.label_smoothing <= 0, "--tensor-parallel: the loss of a divided vocabulary has no --label-smoothing");
  require(c.dtype != "f16", "--tensor-parallel: ranks would not skip the same steps in f16; use --dtype bf16 or f32");
  require(make_optimizer(c.optimizer)->elementwise(),
          "--tensor-parallel: --optimizer {} looks at whole parameters, which no rank has; use adamw or sgd",
          c.optimizer);
}

}  // namespace

void resolve(RunConfig& c) {
  const bool llama = c.model == "llama", gpt = c.model == "gpt" || llama;  // text
  const bool tuned = !c.init.empty();
  const auto at_least = [](const char* name, double value, double least) {
    require(value >= least, "--{} must be at least {}, got {}", name, least, value);
  };
  const auto share = [](const char* name, double value) {
    require(value >= 0 && value < 1, "--{} must lie in [0, 1), got {}", name, value);
  };
  const auto choose = [](auto& value, auto choice) {
    if (value == 0) value = choice;
  };
  each_setting(c, [&](const char* name, const auto& value, const char*, const std::vector<std::string>& choices) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::string>) {
      const bool known = choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end();
      require(known, "--{}: {}", name, not_one_of(value, choices));
      require(io::find_invalid_utf8(value) == std::string::npos,
              "--{} {}: the name is not UTF-8, as config.json needs it; rename it", name, value);
    }
  });
  if (c.data.empty()) c.data = gpt ? "tales" : "digits";
  if (c.hidden.empty()) c.hidden = {256};
  if (c.activation == "auto") c.activation = "gelu";
  choose(c.width, gpt ? 128 : 16);
  choose(c.layers, gpt ? 4 : 1);
  choose(c.context, tuned ? 512 : 64);
  choose(c.kv_heads, c.heads);
  choose(c.feed_forward, (8 * c.width / 3 + 31) / 32 * 32);
  if (c.patience > 0 && c.validation_fraction < 0) c.validation_fraction = kUsualValidation;
  // Rates that work for the small networks of this program; sign and plain gradient steps need other sizes.
  const double adaptive = tuned ? 2e-5 : gpt ? 2e-3 : c.model == "mlp" ? 1e-3 : 3e-3;
  const bool plain = c.optimizer == "sgd", sign = c.optimizer == "lion";
  choose(c.lr, plain ? 0.05 : sign ? adaptive / 10 : c.optimizer == "lars" ? 1.0 : adaptive);

  for (std::int64_t size : c.hidden) at_least("hidden", static_cast<double>(size), 1);
  for (const auto& [name, value] :
       {std::pair{"train-count", c.train_count}, std::pair{"test-count", c.test_count}, std::pair{"width", c.width},
        std::pair{"layers", c.layers}, std::pair{"heads", c.heads}, std::pair{"context", c.context},
        std::pair{"kv-heads", c.kv_heads}, std::pair{"feed-forward", c.feed_forward},
        std::pair{"accumulate", c.accumulate}}) {
    at_least(name, static_cast<double>(value), 1);
  }
  for (const auto& [name, value] :
       {std::pair{"steps", c.steps}, std::pair{"batch", c.batch},
        std::pair{"patience", c.patience == -1 ? 0 : c.patience}, std::pair{"shards", c.shards},
        std::pair{"tensor-parallel", c.tensor_parallel}, std::pair{"workers", c.workers},
        std::pair{"threads", c.threads}, std::pair{"eval-every", c.eval_every},
        std::pair{"checkpoint-every", c.checkpoint_every}, std::pair{"log-every", c.log_every}}) {
    at_least(name, static_cast<double>(value), 0);
  }
  for (const auto& [name, value] :
       {std::pair{"epochs", c.epochs}, std::pair{"lr", c.lr}, std::pair{"warmup", c.warmup},
        std::pair{"weight-decay", c.weight_decay}, std::pair{"clip", c.clip}, std::pair{"momentum", c.momentum}}) {
    at_least(name, value, 0);
    require(std::isfinite(value), "--{} must be finite, got {}", name, value);
  }
  for (const auto& [name, value] :
       {std::pair{"dropout", c.dropout}, std::pair{"ema", c.ema},
        std::pair{"label-smoothing", c.label_smoothing == -1 ? 0 : c.label_smoothing},
        std::pair{"validation-fraction", c.validation_fraction == -1 ? 0 : c.validation_fraction}}) {
    share(name, value);
  }
  require(c.resize.size() <= 2, "--resize takes one number or a height and a width, got {} numbers", c.resize.size());
  for (std::int64_t side : c.resize) at_least("resize", static_cast<double>(side), 1);
  require(c.test_fraction > 0 && c.test_fraction < 1, "--test-fraction must lie between 0 and 1, got {}",
          c.test_fraction);
  at_least("tokens", static_cast<double>(c.tokens), 256);
  require(!gpt || tuned || c.width % c.heads == 0, "--width {} cannot be divided among --heads {}", c.width, c.heads);
  require(!llama || c.heads % c.kv_heads == 0, "--kv-heads {} cannot be shared evenly by --heads {}", c.kv_heads,
          c.heads);
  require(!llama || c.rope_theta > 0, "--rope-theta must be positive, got {}", c.rope_theta);
  require(!llama || c.dropout == 0, "--dropout {}: --model llama has none", c.dropout);
  for (const auto& [name, value] : {std::pair{"init", &c.init}, std::pair{"documents", &c.documents}})
    require(llama || value->empty(), "--{} {} is for --model llama, not {}", name, *value, c.model);
  require(llama || c.products == "dtype", "--products {} is for --model llama, not {}", c.products, c.model);
  require(gpt || c.tokenizer.empty(), "--tokenizer {} is for --model gpt and llama, not {}", c.tokenizer, c.model);
  if (c.tensor_parallel > 0) require_divisible(c);
}

void resolve_length(RunConfig& c, std::int64_t examples, bool rows) {
  const bool gpt = c.model == "gpt" || c.model == "llama", mlp = c.model == "mlp";
  if (c.batch == 0) {
    // Small batches for little data, so that a pass has several steps.
    c.batch = gpt ? 16 : 64;
    while (c.batch > 8 && examples < 16 * c.batch) c.batch /= 2;
  }
  if (c.steps > 0 || c.epochs > 0) return;
  const double per_epoch = std::max(1.0, std::floor(static_cast<double>(examples) / static_cast<double>(c.batch)) /
                                             static_cast<double>(c.accumulate));
  const double passes = gpt ? 4 : mlp ? 10 : 5, least = gpt ? 300 : mlp ? 2000 : 500;
  c.epochs = std::max(passes, std::ceil(least / per_epoch));
  // A hundred passes over rows, unless they take long; the validation data decides which of them are used.
  constexpr double kMany = 100, kLong = 10000;
  if (rows) c.epochs = std::max(c.epochs, std::min(kMany, std::floor(kLong / per_epoch)));
}

std::size_t bytes_of(const std::string& size) {
  if (size.empty()) return 0;
  static const std::map<std::string, double> units{{"", 1},     {"b", 1},         {"kb", 1e3},      {"mb", 1e6},
                                                   {"gb", 1e9}, {"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}};
  std::istringstream in(size);
  double number = 0;
  std::string unit, more;
  const bool begins_with_number = static_cast<bool>(in >> number);
  if (begins_with_number) in >> unit >> more;
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found = units.find(unit);
  require(begins_with_number && number >= 0 && number < 1e15 && more.empty() && found != units.end(),
          "--memory: '{}' is not a size; write '6 GiB', '500 MB' or a number of bytes", size);
  return static_cast<std::size_t>(number * found->second);
}

}  // namespace ebb::program
