// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "commands.h"
#include "core/format_error.h"
#include "device_option.h"
#include "ebb/autograd.h"
#include "ebb/io.h"
#include "ebb/losses/registry.h"
#include "ebb/ops.h"
#include "loss_name.h"
#include "loss_options.h"

// `ebb loss`: any loss of the registry and its gradients, from .npy files.
namespace ebb::program {
namespace {

struct LossCommand {
  std::string name, first_input, first_gradient, reduction, cotangent, out;
  std::map<std::string, std::string> inputs, gradients;  // files by the names of inputs
  std::vector<std::string> options;
  bool json = false;
};

// Every name that an input of some loss has, in the registry's order.
std::vector<LossInput> all_inputs() {
  std::vector<LossInput> all;
  for (const LossInfo& loss : loss_registry()) {
    for (const LossInput& input : loss.inputs) {
      const auto same = [&](const LossInput& other) { return other.name == input.name; };
      const auto it = std::find_if(all.begin(), all.end(), same);
      if (it == all.end()) {
        all.push_back(input);
      } else {
        it->differentiable = it->differentiable || input.differentiable;
      }
    }
  }
  return all;
}

LossOptionValues option_values(const LossCommand& c) {
  LossOptionValues values = loss_options(c.name, c.options);
  if (!c.reduction.empty()) values["reduction"] = loss_option_from_text(c.name, "reduction", c.reduction);
  return values;
}

// Files by the names of this loss's inputs; other names are wrong usage.
std::map<std::string, std::string> named_files(const LossInfo& loss, const std::map<std::string, std::string>& given,
                                               const std::string& first, std::string_view first_name) {
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : given) {
    if (file.empty()) continue;
    loss.input(name);
    files[name] = file;
  }
  if (!first.empty()) files[std::string(first_name)] = first;
  return files;
}

struct Request {
  LossOptionValues options;
  std::map<std::string, std::string> inputs, gradients;
};

// Checks everything about the words themselves.
Request checked(const LossCommand& c) {
  try {
    const LossInfo& loss = loss_info(c.name);
    std::string_view first_gradient;
    for (const LossInput& input : loss.inputs) {
      if (first_gradient.empty() && input.differentiable) first_gradient = input.name;
    }
    Request r{option_values(c), named_files(loss, c.inputs, c.first_input, loss.inputs[0].name),
              named_files(loss, c.gradients, c.first_gradient, first_gradient)};
    for (const LossInput& input : loss.inputs) {
      const bool given = r.inputs.contains(std::string(input.name));
      require(given || input.optional, "{}: its input '{}' is missing; give --{} FILE.npy", c.name, input.name,
              input.name);
    }
    for (const auto& [name, file] : r.gradients) {
      require(loss.input(name).differentiable, "{}: the input {} has no gradient", c.name, name);
      require(r.inputs.contains(name), "{}: a gradient to {} needs that input; give --{} FILE.npy", c.name, name, name);
    }
    return r;
  } catch (const Error& e) {
    throw CLI::ValidationError(e.what());
  }
}

double norm_of(const Tensor& x) { return sqrt(sum(square(cast(x, DType::f64)))).item(); }

nlohmann::ordered_json sizes_of(const Tensor& x) {
  return std::vector<std::int64_t>(x.shape().begin(), x.shape().end());
}

void run_loss(const LossCommand& c) {
  const Request request = checked(c);
  LossInputValues inputs;
  for (const auto& [name, file] : request.inputs) {
    const Tensor x = io::load_npy(file);
    const bool wanted = request.gradients.contains(name);
    require(!wanted || is_floating(x.dtype()), Error::Kind::type, "{}: {} holds {}, which has no gradient", c.name,
            file, x.dtype());
    inputs[name] = wanted ? variable(x) : x;
  }
  const Tensor value = call_loss(c.name, inputs, request.options);
  std::map<std::string, Tensor> gradients;
  if (!request.gradients.empty()) {
    BackwardOptions options;
    options.grad = c.cotangent.empty() ? ones_like(value) : cast(io::load_npy(c.cotangent), value.dtype());
    const Gradients g = backward(value, options);
    std::vector<Tensor> together{value};
    for (const auto& [name, file] : request.gradients) together.push_back(gradients[name] = g[inputs[name]]);
    eval(together);
  }
  if (!c.out.empty()) io::save_npy(c.out, value);
  for (const auto& [name, gradient] : gradients) io::save_npy(request.gradients.at(name), gradient);

  if (c.json) {
    nlohmann::ordered_json result{{"loss", c.name}, {"dtype", name(value.dtype())}, {"shape", sizes_of(value)}};
    if (value.rank() == 0) {
      result["value"] = value.item();
    } else {
      result["value"] = value.to_vector();  // row-major
    }
    result["gradients"] = nlohmann::ordered_json::object();
    for (const auto& [input, g] : gradients) {
      result["gradients"][input] = {{"file", request.gradients.at(input)},
                                    {"dtype", name(g.dtype())},
                                    {"shape", sizes_of(g)},
                                    {"norm", norm_of(g)}};
    }
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{}{}{}\n", c.name, value.rank() == 0 ? " = " : "\n", value.str());
  for (const auto& [input, g] : gradients) {
    fmt::print("gradient to {}: {} of {}, norm {:.9g}, in {}\n", input, g.shape(), g.dtype(), norm_of(g),
               request.gradients.at(input));
  }
}

}  // namespace

void add_loss_command(CLI::App& app) {
  auto c = std::make_shared<LossCommand>();
  CLI::App* command = app.add_subcommand("loss", "Compute a loss and its gradients from .npy files");
  add_loss_name(*command, c->name)->required();
  add_device_option(*command);
  command->add_option("--pred", c->first_input, "The first input, whatever its name")->type_name("FILE");
  command->add_option("--grad", c->first_gradient, "Write the gradient to the first input that has one")
      ->type_name("FILE");
  add_loss_options(*command, c->options);
  command->add_option("--reduction", c->reduction, "Of the terms")->check(one_of({"none", "mean", "sum", "batchmean"}));
  command->add_option("--cotangent", c->cotangent, "What the terms count in the gradient; default: 1 each")
      ->type_name("FILE");
  command->add_option("--out", c->out, "Write the value")->type_name("FILE");
  command->add_flag("--json", c->json, "The result as JSON");
  for (const LossInput& input : all_inputs()) {
    const std::string word(input.name);
    command->add_option("--" + word, c->inputs[word])->type_name("FILE")->group("Inputs, by the names of the loss");
    if (!input.differentiable) continue;
    command->add_option("--grad-" + word, c->gradients[word])->type_name("FILE")->group("Gradients to write");
  }
  command->footer(
      "Examples:\n"
      "  ebb loss mse_loss --pred p.npy --target t.npy --grad g.npy\n"
      "  ebb loss cross_entropy --pred logits.npy --target classes.npy --option label_smoothing=0.1 --json\n"
      "  ebb loss gaussian_nll_loss --pred mean.npy --target t.npy --var v.npy --grad-var gv.npy");
  command->callback([c] { run_loss(*c); });
}

}  // namespace ebb::program
