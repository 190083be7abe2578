// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/losses/reduction.h"
#include "ebb/options.h"
#include "ebb/tensor.h"

// Every loss described once: documentation, plots, the command line and bindings read it from here. Names and defaults
// of options are those of the options structs.
namespace ebb {

struct LossInput {
  std::string_view name;
  bool differentiable = true;
  bool optional = false;  // may be omitted; optional inputs come last
};

using LossOption = OptionInfo;
using LossOptionValue = OptionValue;
using LossOptionValues = OptionValues;

struct LossInfo {
  std::string_view name;     // of the function
  std::string_view family;   // regression, classification, ...
  std::string_view formula;  // of one term, as text
  std::vector<LossInput> inputs;
  std::vector<LossOption> options;
  // Takes the inputs in order, undefined where one is omitted; evaluate_loss validates them.
  std::function<Tensor(const std::vector<Tensor>& inputs, const LossOptionValues& options)> evaluate;
  std::string docs() const { return "docs/losses.md#" + std::string(name); }
  const LossInput& input(std::string_view name) const;    // throws Error listing the available inputs
  const LossOption& option(std::string_view name) const;  // throws Error listing the available options
};

std::span<const LossInfo> loss_registry();
const LossInfo& loss_info(std::string_view name);  // throws Error with the closest name, or all names

// evaluate_loss("huber_loss", {x, t}, {{"delta", 2.0}, {"reduction", "sum"}}); an unknown option is an Error.
Tensor evaluate_loss(std::string_view name, const std::vector<Tensor>& inputs, const LossOptionValues& options = {});

// The same with inputs by their names: call_loss("gaussian_nll_loss", {{"input", x}, {"target", t}, {"var", v}}). Any
// optional input may be omitted.
using LossInputValues = std::map<std::string, Tensor, std::less<>>;
Tensor call_loss(std::string_view name, const LossInputValues& inputs, const LossOptionValues& options = {});

// An option given as text: "0.1", "true" or "sum". It is a number unless its kind is a string.
LossOptionValue loss_option_from_text(std::string_view loss, std::string_view option, std::string_view text);

std::string_view name(Reduction reduction);
Reduction reduction_from_name(std::string_view name);

}  // namespace ebb
