// SPDX-License-Identifier: MIT
#include "linear_heads.h"

#include <nanobind/stl/variant.h>

#include <algorithm>
#include <variant>

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/losses/registry.h"
#include "losses/linear_loss.h"
#include "shared_object.h"

namespace ebb::python {
namespace {

TokenStatisticsOptions head_options(const Tensor* bias, std::int64_t ignore_index, double logit_scale, double softcap,
                                    double temperature, std::int64_t chunk) {
  TokenStatisticsOptions o;
  o.bias = or_none(bias);
  o.ignore_index = ignore_index;
  o.logit_scale = logit_scale;
  o.softcap = softcap;
  o.temperature = temperature;
  o.chunk = chunk;
  return o;
}

// The members of TokenStatistics by the names that Python asks for them with.
struct Output {
  const char* name;
  bool TokenStatisticsOptions::*wanted;  // null: always there
  Tensor TokenStatistics::*found;
};
constexpr Output kOutputs[] = {
    {"log_probs", nullptr, &TokenStatistics::log_probs},
    {"entropy", &TokenStatisticsOptions::entropy, &TokenStatistics::entropy},
    {"logsumexp", &TokenStatisticsOptions::logsumexp, &TokenStatistics::logsumexp},
    {"log_sum_sq_probs", &TokenStatisticsOptions::log_sum_sq_probs, &TokenStatistics::log_sum_sq_probs},
    {"mean_logits", &TokenStatisticsOptions::mean_logits, &TokenStatistics::mean_logits},
    {"argmax", &TokenStatisticsOptions::argmax, &TokenStatistics::argmax},
};

using Names = std::vector<std::string>;

Tensor TokenStatistics::*member_named(const std::string& name) {
  const auto* it =
      std::find_if(std::begin(kOutputs), std::end(kOutputs), [&](const Output& e) { return name == e.name; });
  require(it != std::end(kOutputs),
          "linear_log_probs: there is no output '{}'; there are log_probs, entropy, logsumexp, log_sum_sq_probs, "
          "mean_logits and argmax",
          name);
  return it->found;
}

TokenStatisticsOptions with_outputs(TokenStatisticsOptions o, const Names& names) {
  for (const Output& each : kOutputs)
    if (each.wanted) o.*each.wanted = std::find(names.begin(), names.end(), each.name) != names.end();
  return o;
}

std::vector<Tensor> members(const TokenStatistics& all, const Names& names) {
  std::vector<Tensor> found;
  for (const std::string& name : names) found.push_back(all.*member_named(name));
  return found;
}

TokenStatistics statistics_from(const Names& names, const std::vector<Tensor>& tensors) {
  TokenStatistics all;
  for (std::size_t k = 0; k < names.size(); ++k) all.*member_named(names[k]) = tensors.at(k);
  return all;
}

std::vector<Tensor> token_statistics(const Tensor& x, const Tensor& head, const Tensor& target,
                                     const TokenStatisticsOptions& o, const Names& names) {
  for (const std::string& name : names) member_named(name);
  return members(linear_token_statistics(x, head, target, with_outputs(o, names)), names);
}

// Results handed to PyTorch: evaluated together, in memory that nothing else uses.
std::vector<Tensor> given_away(std::vector<Tensor> found) {
  eval(found);
  for (Tensor& f : found) f = exclusive(f);
  return found;
}

// ---- for PyTorch

// Hidden states, a head, targets and the options that Python passes in this order.
struct StatisticsCall {
  Tensor x, head, target;
  TokenStatisticsOptions o;
};

template <class... Before, class F>
auto statistics_function(F f) {
  return [f](Before... before, const Tensor& x, const Tensor& head, const Tensor& target, const Tensor* bias,
             std::int64_t ignore_index, double logit_scale, double softcap, double temperature, std::int64_t chunk,
             const Names& names) {
    const TokenStatisticsOptions o = head_options(bias, ignore_index, logit_scale, softcap, temperature, chunk);
    return given_away(f(before..., StatisticsCall{x, head, target, o}, names));
  };
}

std::vector<Tensor> statistics_values(const StatisticsCall& c, const Names& names) {
  return token_statistics(c.x, c.head, c.target, c.o, names);
}

std::vector<Tensor> operands_at(const StatisticsCall& c, const std::vector<int>& positions) {
  const std::vector<Tensor> all{c.x, c.head, c.o.bias};
  std::vector<Tensor> chosen;
  for (int p : positions) chosen.push_back(all.at(static_cast<std::size_t>(p)));
  return chosen;
}
StatisticsCall with_operands(StatisticsCall c, const std::vector<int>& positions, const std::vector<Tensor>& given) {
  for (std::size_t k = 0; k < positions.size(); ++k)
    (positions[k] == 0 ? c.x : positions[k] == 1 ? c.head : c.o.bias) = given[k];
  return c;
}

// Σ cotangent·output.
Tensor weighted_statistics(const StatisticsCall& c, const Names& names, const std::vector<Tensor>& cotangents) {
  const std::vector<Tensor> outputs = token_statistics(c.x, c.head, c.target, c.o, names);
  Tensor total;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Tensor part = sum(outputs[k] * cast(cotangents.at(k), outputs[k].dtype()));
    total = total.defined() ? total + part : part;
  }
  return total;
}

// The gradients of Σ cotangent·output with respect to x, head and bias, those that `positions` (0, 1, 2) name. Values
// of logsumexp, entropy and log_sum_sq_probs save a pass over the logits; without them there is none of logsumexp.
std::vector<Tensor> statistics_gradients(const std::vector<Tensor>& cotangents, const std::vector<Tensor*>& values,
                                         const std::vector<int>& positions, const StatisticsCall& c,
                                         const Names& names) {
  if (!values.at(0)) {
    return ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& tracked) {
      return weighted_statistics(with_operands(c, positions, tracked), names, cotangents);
    }))(operands_at(c, positions));
  }
  TokenStatistics known;
  known.logsumexp = *values[0];
  known.entropy = or_none(values.at(1));
  known.log_sum_sq_probs = or_none(values.at(2));
  const auto wanted = [&](int p) { return std::find(positions.begin(), positions.end(), p) != positions.end(); };
  const LinearCrossEntropyGradients g =
      linear_token_statistics_backward(statistics_from(names, cotangents), known, c.x, c.head, c.target,
                                       with_outputs(c.o, names), {wanted(0), wanted(1), wanted(2)});
  std::vector<Tensor> found;
  for (int p : positions) found.push_back(p == 0 ? g.x : p == 1 ? g.head : g.bias);
  return found;
}

// The outputs' derivatives in a direction, for the operands that `positions` name.
std::vector<Tensor> statistics_tangents(const std::vector<Tensor>& tangents, const std::vector<int>& positions,
                                        const StatisticsCall& c, const Names& names) {
  StatisticsTangents direction;
  for (std::size_t k = 0; k < positions.size(); ++k)
    (positions[k] == 0 ? direction.x : positions[k] == 1 ? direction.head : direction.bias) = tangents.at(k);
  return members(linear_token_statistics_jvp(c.x, c.head, c.target, with_outputs(c.o, names), direction), names);
}

// Σ direction·tensor.
Tensor along(const std::vector<Tensor>& tensors, const std::vector<Tensor>& directions) {
  Tensor total = zeros({}, DType::f64);
  for (std::size_t k = 0; k < tensors.size(); ++k)
    total = total + cast(sum(tensors[k] * cast(directions.at(k), tensors[k].dtype())), DType::f64);
  return total;
}

// The gradients, with respect to the same operands, of Σ direction·(gradients of Σ cotangent·output): second
// derivatives times a direction.
std::vector<Tensor> statistics_second(const std::vector<Tensor>& directions, const std::vector<Tensor>& cotangents,
                                      const std::vector<int>& positions, const StatisticsCall& c, const Names& names) {
  return ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& outer) {
    const std::vector<Tensor> gradients = ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& tracked) {
      return weighted_statistics(with_operands(c, positions, tracked), names, cotangents);
    }))(outer);
    return along(gradients, directions);
  }))(operands_at(c, positions));
}

// A formula in Python, called with each tensor as an argument.
TermFormula formula_from(nb::callable f) {
  return [f = shared_object(std::move(f))](const std::vector<Tensor>& arguments) {
    const nb::gil_scoped_acquire interpreter;
    const nb::object terms = (*f)(*nb::tuple(nb::cast(arguments)));
    const Tensor* found = tensor_in(terms);
    require(found != nullptr, Error::Kind::type, "linear_loss: the formula must return an ebb.Tensor, got {}",
            nb::cast<std::string>(terms.type().attr("__name__")));
    return *found;
  };
}

// linear_loss as Python calls it.
struct LossCall {
  TermFormula formula;
  LinearLossInputs in;
  LinearLossOptions o;
};

LossCall loss_call(nb::callable formula, const Tensor& x, const Tensor& head, const Tensor* target, const Tensor* bias,
                   const std::vector<Tensor>& others, const std::vector<Tensor>& shared, const std::string& of,
                   std::int64_t sides, const std::string& reduction, std::int64_t ignore_index, double logit_scale,
                   double softcap, double temperature, std::int64_t chunk) {
  LinearLossOptions o;
  static_cast<LinearLogProbOptions&>(o) = head_options(bias, ignore_index, 1, softcap, temperature, chunk);
  o.logit_scale = logit_scale;
  o.of = of == "logits" ? LossOf::logits : LossOf::log_probs;
  o.sides = sides;
  o.reduction = reduction_from_name(reduction);
  return {formula_from(std::move(formula)), {x, head, or_none(target), others, shared}, o};
}

template <class... Before, class F>
auto loss_function(F f) {
  return [f](nb::callable formula, Before... before, const Tensor& x, const Tensor& head, const Tensor* target,
             const Tensor* bias, const std::vector<Tensor>& others, const std::vector<Tensor>& shared,
             const std::string& of, std::int64_t sides, const std::string& reduction, std::int64_t ignore_index,
             double logit_scale, double softcap, double temperature, std::int64_t chunk) {
    return given_away(f(before..., loss_call(std::move(formula), x, head, target, bias, others, shared, of, sides,
                                             reduction, ignore_index, logit_scale, softcap, temperature, chunk)));
  };
}

// The loss, then the gradients at these positions of x, head, bias, others, shared.
std::vector<Tensor> linear_loss_values(const std::vector<int>& positions, const LossCall& c) {
  std::vector<bool> asked(3 + c.in.others.size() + c.in.shared.size());
  for (int p : positions) asked.at(static_cast<std::size_t>(p)) = true;
  const LossAndGradients found = linear_loss(c.in, c.formula, c.o, asked);
  std::vector<Tensor> all{found.loss};
  for (int p : positions) all.push_back(found.gradients[static_cast<std::size_t>(p)]);
  return all;
}

Tensor& operand_at(LossCall& c, int position) {
  if (position < 3) return position == 0 ? c.in.x : position == 1 ? c.in.head : c.o.bias;
  const auto k = static_cast<std::size_t>(position) - 3, n = c.in.others.size();
  return k < n ? c.in.others[k] : c.in.shared.at(k - n);
}

// The gradients, at the same positions, of Σ direction·(gradient of the loss).
std::vector<Tensor> linear_loss_second(const std::vector<int>& positions, const std::vector<Tensor>& directions,
                                       LossCall c) {
  std::vector<Tensor> chosen;
  for (int p : positions) chosen.push_back(operand_at(c, p));
  const FunctionOfMany loss = [&](const std::vector<Tensor>& tracked) {
    LossCall with = c;
    for (std::size_t k = 0; k < positions.size(); ++k) operand_at(with, positions[k]) = tracked[k];
    return linear_loss(with.in, with.formula, with.o);
  };
  return ebb::grad(FunctionOfMany(
      [&](const std::vector<Tensor>& outer) { return along(ebb::grad(loss)(outer), directions); }))(chosen);
}

}  // namespace

void bind_linear_heads(const Api& api) {
  nb::module_& m = api.module;
  const SequenceLogProbOptions head;  // its defaults are the arguments'
  using Tensors = const std::vector<Tensor>&;
  using Positions = const std::vector<int>&;
  const auto loss = [&](const char* name, const auto& f, const auto&... before) {
    m.def(name, f, "formula"_a, before..., "x"_a, "head"_a, "target"_a.none(), "bias"_a.none(), "others"_a, "shared"_a,
          "of"_a, "sides"_a, "reduction"_a, "ignore_index"_a, "logit_scale"_a, "softcap"_a, "temperature"_a, "chunk"_a);
  };
  loss("_linear_loss", loss_function<Positions>(linear_loss_values), "positions"_a);
  loss("_linear_loss_second", loss_function<Positions, Tensors>(linear_loss_second), "positions"_a, "directions"_a);
  const auto statistics = [&](const char* name, const auto& f, const auto&... before) {
    m.def(name, f, before..., "x"_a, "head"_a, "target"_a, "bias"_a.none(), "ignore_index"_a, "logit_scale"_a,
          "softcap"_a, "temperature"_a, "chunk"_a, "outputs"_a);
  };
  statistics("_token_statistics", statistics_function<>(statistics_values));
  statistics("_token_statistics_gradients",
             statistics_function<Tensors, const std::vector<Tensor*>&, Positions>(statistics_gradients), "cotangents"_a,
             "values"_a, "positions"_a);
  statistics("_token_statistics_tangents", statistics_function<Tensors, Positions>(statistics_tangents), "tangents"_a,
             "positions"_a);
  statistics("_token_statistics_second", statistics_function<Tensors, Tensors, Positions>(statistics_second),
             "directions"_a, "cotangents"_a, "positions"_a);
  function(
      api, "linear_log_probs",
      [](const Tensor& x, const Tensor& head, const Tensor& target, const Tensor* bias, std::int64_t ignore_index,
         double logit_scale, double softcap, double temperature, std::int64_t chunk,
         const std::variant<std::string, std::vector<std::string>>& outputs) -> std::variant<Tensor, nb::tuple> {
        const TokenStatisticsOptions o = head_options(bias, ignore_index, logit_scale, softcap, temperature, chunk);
        if (const auto* name = std::get_if<std::string>(&outputs))
          return token_statistics(x, head, target, o, {*name})[0];
        const auto& names = std::get<std::vector<std::string>>(outputs);
        return nb::tuple(nb::cast(token_statistics(x, head, target, o, names)));
      },
      "x"_a, "head"_a, "target"_a, nb::kw_only(), "bias"_a.none() = nb::none(), "ignore_index"_a = head.ignore_index,
      "logit_scale"_a = 1.0, "softcap"_a = head.softcap, "temperature"_a = head.temperature, "chunk"_a = head.chunk,
      "outputs"_a = "log_probs");
  function(
      api, "linear_sequence_log_probs",
      [](const Tensor& x, const Tensor& head, const Tensor& target, const Tensor* bias, std::int64_t ignore_index,
         double softcap, double temperature, std::int64_t chunk, bool average) {
        SequenceLogProbOptions o;
        static_cast<LinearLogProbOptions&>(o) = head_options(bias, ignore_index, 1, softcap, temperature, chunk);
        o.average = average;
        return linear_sequence_log_probs(x, head, target, o);
      },
      "x"_a, "head"_a, "target"_a, nb::kw_only(), "bias"_a.none() = nb::none(), "ignore_index"_a = head.ignore_index,
      "softcap"_a = head.softcap, "temperature"_a = head.temperature, "chunk"_a = head.chunk,
      "average"_a = head.average);
}

}  // namespace ebb::python
