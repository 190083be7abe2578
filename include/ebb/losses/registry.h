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
  bool optional = false;  // may be left out; optional inputs come last
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
  // Of the inputs in their order, undefined where one is left out; evaluate_loss checks what it is given.
  std::function<Tensor(const std::vector<Tensor>& inputs, const LossOptionValues& options)> evaluate;
  std::string docs() const { return "docs/losses.md#" + std::string(name); }
  const LossInput& input(std::string_view name) const;    // throws Error naming the inputs it has
  const LossOption& option(std::string_view name) const;  // throws Error naming the options it has
};

std::span<const LossInfo> loss_registry();
const LossInfo& loss_info(std::string_view name);  // throws Error with the nearest name, or all there are

// evaluate_loss("huber_loss", {x, t}, {{"delta", 2.0}, {"reduction", "sum"}}); an unknown option is an Error.
Tensor evaluate_loss(std::string_view name, const std::vector<Tensor>& inputs, const LossOptionValues& options = {});

// The same with inputs by their names: call_loss("gaussian_nll_loss", {{"input", x}, {"target", t}, {"var", v}}). An
// optional one may be left out, whichever it is.
using LossInputValues = std::map<std::string, Tensor, std::less<>>;
Tensor call_loss(std::string_view name, const LossInputValues& inputs, const LossOptionValues& options = {});

// An option given as text: "0.1", "true" or "sum". It is a number unless its kind is a word.
LossOptionValue loss_option_from_text(std::string_view loss, std::string_view option, std::string_view text);

std::string_view name(Reduction reduction);
Reduction reduction_from_name(std::string_view name);

}  // namespace ebb
