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
std::vector<Tensor> token_statistics(const Tensor& x, const Tensor& head, const Tensor& target,
                                     TokenStatisticsOptions o, const std::vector<std::string>& names) {
  using Wanted = bool TokenStatisticsOptions::*;
  using Found = Tensor TokenStatistics::*;
  struct Output {
    const char* name;
    Wanted wanted;  // null: always there
    Found found;
  };
  static constexpr Output kOutputs[] = {
      {"log_probs", nullptr, &TokenStatistics::log_probs},
      {"entropy", &TokenStatisticsOptions::entropy, &TokenStatistics::entropy},
      {"logsumexp", &TokenStatisticsOptions::logsumexp, &TokenStatistics::logsumexp},
      {"log_sum_sq_probs", &TokenStatisticsOptions::log_sum_sq_probs, &TokenStatistics::log_sum_sq_probs},
      {"mean_logits", &TokenStatisticsOptions::mean_logits, &TokenStatistics::mean_logits},
      {"argmax", &TokenStatisticsOptions::argmax, &TokenStatistics::argmax},
  };
  std::vector<Found> asked;
  for (const Output& each : kOutputs)
    if (each.wanted) o.*each.wanted = false;
  for (const std::string& name : names) {
    const auto* it =
        std::find_if(std::begin(kOutputs), std::end(kOutputs), [&](const Output& e) { return name == e.name; });
    require(it != std::end(kOutputs),
            "linear_log_probs: there is no output '{}'; there are log_probs, entropy, logsumexp, log_sum_sq_probs, "
            "mean_logits and argmax",
            name);
    if (it->wanted) o.*it->wanted = true;
    asked.push_back(it->found);
  }
  const TokenStatistics all = linear_token_statistics(x, head, target, o);
  std::vector<Tensor> found;
  for (const Found member : asked) found.push_back(all.*member);
  return found;
}

// For PyTorch: the outputs, evaluated together, in memory that nothing else uses.
std::vector<Tensor> token_statistics_values(const Tensor& x, const Tensor& head, const Tensor& target,
                                            const Tensor* bias, std::int64_t ignore_index, double logit_scale,
                                            double softcap, double temperature, std::int64_t chunk,
                                            const std::vector<std::string>& names) {
  const TokenStatisticsOptions o = head_options(bias, ignore_index, logit_scale, softcap, temperature, chunk);
  std::vector<Tensor> found = token_statistics(x, head, target, o, names);
  eval(found);
  for (Tensor& f : found) f = exclusive(f);
  return found;
}

// The gradients of Σ cotangent·output with respect to x, head and bias, those that `positions` (0, 1, 2) name.
std::vector<Tensor> token_statistics_gradients(const std::vector<Tensor>& cotangents, const std::vector<int>& positions,
                                               const Tensor& x, const Tensor& head, const Tensor& target,
                                               const Tensor* bias, std::int64_t ignore_index, double logit_scale,
                                               double softcap, double temperature, std::int64_t chunk,
                                               const std::vector<std::string>& names) {
  const std::vector<Tensor> inputs{x, head, or_none(bias)};
  std::vector<Tensor> chosen;
  for (int p : positions) chosen.push_back(inputs.at(static_cast<std::size_t>(p)));
  std::vector<Tensor> found = ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& tracked) {
    std::vector<Tensor> all = inputs;
    for (std::size_t k = 0; k < positions.size(); ++k) all[static_cast<std::size_t>(positions[k])] = tracked[k];
    TokenStatisticsOptions o = head_options(nullptr, ignore_index, logit_scale, softcap, temperature, chunk);
    o.bias = all[2];
    const std::vector<Tensor> outputs = token_statistics(all[0], all[1], target, o, names);
    Tensor total;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Tensor part = sum(outputs[k] * cast(cotangents.at(k), outputs[k].dtype()));
      total = total.defined() ? total + part : part;
    }
    return total;
  }))(chosen);
  eval(found);
  for (Tensor& f : found) f = exclusive(f);
  return found;
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

// For PyTorch: the loss, then the gradients at these positions of x, head, bias, others, shared.
std::vector<Tensor> linear_loss_values(nb::callable formula, const std::vector<int>& positions, const Tensor& x,
                                       const Tensor& head, const Tensor* target, const Tensor* bias,
                                       const std::vector<Tensor>& others, const std::vector<Tensor>& shared,
                                       const std::string& of, std::int64_t sides, const std::string& reduction,
                                       std::int64_t ignore_index, double logit_scale, double softcap,
                                       double temperature, std::int64_t chunk) {
  LinearLossOptions o;
  static_cast<LinearLogProbOptions&>(o) = head_options(bias, ignore_index, 1, softcap, temperature, chunk);
  o.logit_scale = logit_scale;
  o.of = of == "logits" ? LossOf::logits : LossOf::log_probs;
  o.sides = sides;
  o.reduction = reduction_from_name(reduction);
  std::vector<bool> asked(3 + others.size() + shared.size());
  for (int p : positions) asked.at(static_cast<std::size_t>(p)) = true;
  const LossAndGradients found =
      linear_loss({x, head, or_none(target), others, shared}, formula_from(std::move(formula)), o, asked);
  std::vector<Tensor> all{found.loss};
  for (int p : positions) all.push_back(found.gradients[static_cast<std::size_t>(p)]);
  eval(all);
  for (Tensor& t : all) t = exclusive(t);
  return all;
}

}  // namespace

void bind_linear_heads(const Api& api) {
  nb::module_& m = api.module;
  const SequenceLogProbOptions head;  // its defaults are the arguments'
  m.def("_linear_loss", linear_loss_values, "formula"_a, "positions"_a, "x"_a, "head"_a, "target"_a.none(),
        "bias"_a.none(), "others"_a, "shared"_a, "of"_a, "sides"_a, "reduction"_a, "ignore_index"_a, "logit_scale"_a,
        "softcap"_a, "temperature"_a, "chunk"_a);
  m.def("_token_statistics", token_statistics_values, "x"_a, "head"_a, "target"_a, "bias"_a.none(), "ignore_index"_a,
        "logit_scale"_a, "softcap"_a, "temperature"_a, "chunk"_a, "outputs"_a);
  m.def("_token_statistics_gradients", token_statistics_gradients, "cotangents"_a, "positions"_a, "x"_a, "head"_a,
        "target"_a, "bias"_a.none(), "ignore_index"_a, "logit_scale"_a, "softcap"_a, "temperature"_a, "chunk"_a,
        "outputs"_a);
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
