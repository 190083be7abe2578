// SPDX-License-Identifier: MIT
#include "ebb/optim.h"

#include "bind.h"
#include "described.h"
#include "ebb/amp.h"
#include "ebb/distributed/sharded_optimizer.h"

namespace ebb::python {
namespace {

// A Python model as the optimisers see it: tensors by name, taken from it before a step and given back after it.
struct Flat {
  std::vector<std::string> names, buffer_names;
  std::vector<Tensor> tensors;
  std::vector<nn::Buffer> kept;
  template <class V>
  void visit(V&& v) {
    for (std::size_t k = 0; k < tensors.size(); ++k) v(names[k].c_str(), tensors[k]);
    for (std::size_t k = 0; k < kept.size(); ++k) v(buffer_names[k].c_str(), kept[k]);
  }
  std::vector<Tensor> kept_tensors() const {
    std::vector<Tensor> all;
    for (const nn::Buffer& b : kept) all.push_back(b.value);
    return all;
  }
};

using Named = std::vector<std::pair<std::string, Tensor>>;

Flat flat(const Named& parameters, const Named& buffers) {
  Flat model;
  for (const auto& [name, tensor] : parameters) {
    model.names.push_back(name);
    model.tensors.push_back(tensor);
  }
  for (const auto& [name, tensor] : buffers) {
    model.buffer_names.push_back(name);
    model.kept.push_back({tensor});
  }
  return model;
}

// decays: None (all), "matrices", or a function of name and tensor.
DecayFilter decay_filter(nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<nb::str>(h)) {
    if (nb::cast<std::string>(h) != "matrices") throw Error("optimizer: decays is None, 'matrices' or a function");
    return decay_matrices;
  }
  return nb::cast<DecayFilter>(h);
}

// Any of them: what Python's classes, one for each entry of the registry, are made from.
struct AnyOptimizer {
  std::unique_ptr<Optimizer> held;
  Optimizer& get() const {
    if (!held) throw Error("optimizer: it belongs to a ShardedOptimizer now; use that one");
    return *held;
  }
};

nb::list describe_optimizers() {
  nb::list all;
  for (const OptimizerInfo& info : optimizer_registry()) {
    nb::dict d;
    d["name"] = info.name;
    d["class_name"] = info.class_name;
    d["update"] = info.update;
    d["options"] = described(info.options, defaults_of(info.options));
    all.append(d);
  }
  return all;
}

void bind_optimizers(nb::module_& m) {
  m.def("_optimizers", describe_optimizers);
  m.def("_check_optimizer_name", [](const std::string& name) { optimizer_info(name); });
  nb::class_<AnyOptimizer>(
      m, "Optimizer",
      "Owns state (moments, numbers of steps) by parameter name and no parameters: step() gives the model new ones.")
      .def(
          "__init__",
          [](AnyOptimizer* self, const std::string& name, const nb::dict& given, nb::handle decays) {
            OptionValues options;
            for (const auto& [option, value] : given) {
              const auto text = nb::cast<std::string>(option);
              options.emplace(text, option_value(optimizer_info(name).class_name, text, value));
            }
            new (self) AnyOptimizer{make_optimizer(name, options, decay_filter(decays))};
          },
          "name"_a, "options"_a, "decays"_a.none() = nb::none())
      .def_prop_rw(
          "lr", [](const AnyOptimizer& o) { return o.get().lr(); },
          [](AnyOptimizer& o, double lr) { o.get().set_lr(lr); })
      .def(
          "state", [](const AnyOptimizer& o) { return o.get().state(); }, "The state tensors by name, for saving.")
      .def(
          "load_state", [](AnyOptimizer& o, const std::map<std::string, Tensor>& state) { o.get().load_state(state); },
          "state"_a, "Takes over what state() gave.")
      .def("_set_momentum",
           [](AnyOptimizer& o, double momentum) { dynamic_cast<Sgd&>(o.get()).set_momentum(momentum); })
      .def("_print_step",
           [](const AnyOptimizer& o, const Named& parameters, const Named& buffers, const Gradients& gradients) {
             Flat model = flat(parameters, buffers);
             return o.get().print_step(model, gradients);
           })
      .def("_step", [](AnyOptimizer& o, const Named& parameters, const Named& buffers, const Gradients& gradients) {
        Flat model = flat(parameters, buffers);
        o.get().step(model, gradients);
        return nb::make_tuple(model.tensors, model.kept_tensors());
      });
}

void bind_sharded_optimizer(nb::module_& m) {
  using distributed::ShardedOptimizer;
  nb::class_<ShardedOptimizer>(m, "_ShardedOptimizer")
      .def("__init__",
           [](ShardedOptimizer* self, AnyOptimizer& o) {
             o.get();
             new (self) ShardedOptimizer(std::move(o.held));
           })
      .def_prop_rw(
          "lr", [](const ShardedOptimizer& o) { return o.lr(); }, [](ShardedOptimizer& o, double lr) { o.set_lr(lr); })
      .def("state", &ShardedOptimizer::state, "root"_a = -1,
           "The whole state, gathered from all ranks; with `root`, for that rank only. All ranks call it.")
      .def("load_state", &ShardedOptimizer::load_state, "state"_a, "Takes a whole state; every rank keeps its part.")
      .def("_step",
           [](ShardedOptimizer& o, const Named& parameters, const Named& buffers, const Gradients& gradients) {
             Flat model = flat(parameters, buffers);
             o.step(model, gradients);
             return nb::make_tuple(model.tensors, model.kept_tensors());
           })
      .def("_clip_by_norm",
           [](const ShardedOptimizer& o, const Named& parameters, const Gradients& gradients, double max_norm) {
             Flat model = flat(parameters, {});
             ClippedGradients c = o.clip_by_norm(model, gradients, max_norm);
             return std::make_pair(std::move(c.gradients), c.norm);
           });
}

void bind_mixed_precision(nb::module_& m) {
  nb::class_<LossScaler>(m, "_LossScaler")
      .def(
          "__init__",
          [](LossScaler* self, double scale, double growth, double backoff, std::int64_t interval, bool dynamic) {
            new (self) LossScaler({.scale = scale,
                                   .growth = growth,
                                   .backoff = backoff,
                                   .growth_interval = interval,
                                   .dynamic = dynamic});
          },
          "scale"_a = 65536.0, "growth"_a = 2.0, "backoff"_a = 0.5, "growth_interval"_a = 2000, "dynamic"_a = true)
      .def(
          "scale", [](const LossScaler& s, const Tensor& loss) { return s.scale(loss); }, "loss"_a)
      .def("unscale", &LossScaler::unscale, "gradients"_a)
      .def_prop_ro("factor", [](const LossScaler& s) { return s.scale(); })
      .def_prop_ro("steps", &LossScaler::steps)
      .def_prop_ro("skipped", &LossScaler::skipped)
      .def(
          "state",
          [](const LossScaler& l) {
            const LossScaler::State state = l.state();
            return std::make_tuple(state.scale, state.good_in_a_row, state.steps, state.skipped);
          },
          "(factor, good steps in a row, steps, skipped), for saving.")
      .def(
          "load_state",
          [](LossScaler& l, std::tuple<double, std::int64_t, std::int64_t, std::int64_t> state) {
            l.load_state({std::get<0>(state), std::get<1>(state), std::get<2>(state), std::get<3>(state)});
          },
          "state"_a)
      .def("__repr__", &LossScaler::str)
      .def("_step",
           [](LossScaler& s, AnyOptimizer& o, const Named& parameters, const Named& buffers, const Gradients& g) {
             Flat model = flat(parameters, buffers);
             const Stepped stepped = s.step(o.get(), model, g);
             const nb::object taken =
                 stepped.there().defined() ? nb::cast(stepped.there()) : nb::cast(static_cast<bool>(stepped));
             return nb::make_tuple(taken, model.tensors, model.kept_tensors());
           });
  nb::class_<WeightEma>(m, "_WeightEma")
      .def(nb::init<double>(), "decay"_a = 0.999)
      .def("_update",
           [](WeightEma& e, const Named& parameters) {
             Flat model = flat(parameters, {});
             e.update(model);
           })
      .def("_averaged",
           [](const WeightEma& e, const Named& parameters) { return e.averaged(flat(parameters, {})).tensors; })
      .def("state", &WeightEma::state)
      .def("load_state", &WeightEma::load_state, "state"_a);
}

}  // namespace

void bind_optim(const Api& api) {
  nb::module_ m =
      api.module.def_submodule("_optim", "Optimisers, schedules, and what is done to gradients around a step.");
  bind_optimizers(m);
  bind_sharded_optimizer(m);
  bind_mixed_precision(m);
  m.def("decay_matrices", decay_matrices, doc("decay_matrices"), "name"_a, "parameter"_a);
  m.def("scale_gradients", scale_gradients, doc("scale_gradients"), "gradients"_a, "factor"_a);
  m.def("global_norm", global_norm, doc("global_norm"), "gradients"_a, "p"_a = 2.0);
  m.def(
      "clip_by_norm",
      [](const Gradients& g, double max_norm, double p) {
        ClippedGradients c = clip_by_norm(g, max_norm, p);
        return std::make_pair(std::move(c.gradients), c.norm);
      },
      doc("clip_by_norm"), "gradients"_a, "max_norm"_a, "p"_a = 2.0);
  m.def("clip_by_value", clip_by_value, doc("clip_by_value"), "gradients"_a, "limit"_a);
  nb::class_<GradientAccumulator>(m, "GradientAccumulator",
                                  "Sums the gradients of several small batches, as if they were one.")
      .def(nb::init<>())
      .def("add", &GradientAccumulator::add, "gradients"_a, "Adds the gradients of one more batch.")
      .def_prop_ro("count", &GradientAccumulator::count)
      .def("take_sum", &GradientAccumulator::take_sum, "The sum of what was added; nothing is left.")
      .def("take_mean", &GradientAccumulator::take_mean, "The mean of what was added; nothing is left.");
}

}  // namespace ebb::python
