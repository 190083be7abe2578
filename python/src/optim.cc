#include "ebb/optim.h"

#include "bind.h"
#include "ebb/amp.h"

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

using State = std::map<std::string, Tensor>;
using Betas = std::pair<double, double>;

void bind_adam_family(nb::module_& m) {
  nb::class_<Adam, Optimizer>(m, "Adam").def(
      "__init__",
      [](Adam* self, double lr, Betas betas, double eps, double decay, bool amsgrad, nb::handle decays) {
        new (self) Adam(AdamOptions{.lr = lr,
                                    .beta1 = betas.first,
                                    .beta2 = betas.second,
                                    .eps = eps,
                                    .weight_decay = decay,
                                    .amsgrad = amsgrad,
                                    .decays = decay_filter(decays)});
      },
      "lr"_a = 1e-3, "betas"_a = Betas(0.9, 0.999), "eps"_a = 1e-8, "weight_decay"_a = 0.0, "amsgrad"_a = false,
      nb::kw_only(), "decays"_a.none() = nb::none());
  nb::class_<AdamW, Optimizer>(m, "AdamW")
      .def(
          "__init__",
          [](AdamW* self, double lr, Betas betas, double eps, double decay, bool amsgrad, nb::handle decays) {
            new (self) AdamW(AdamWOptions{.lr = lr,
                                          .beta1 = betas.first,
                                          .beta2 = betas.second,
                                          .eps = eps,
                                          .weight_decay = decay,
                                          .amsgrad = amsgrad,
                                          .decays = decay_filter(decays)});
          },
          "lr"_a = 1e-3, "betas"_a = Betas(0.9, 0.999), "eps"_a = 1e-8, "weight_decay"_a = 1e-2, "amsgrad"_a = false,
          nb::kw_only(), "decays"_a.none() = nb::none());
  nb::class_<RAdam, Optimizer>(m, "RAdam")
      .def(
          "__init__",
          [](RAdam* self, double lr, Betas betas, double eps, double decay, bool decoupled, nb::handle decays) {
            new (self) RAdam(RAdamOptions{.lr = lr,
                                          .beta1 = betas.first,
                                          .beta2 = betas.second,
                                          .eps = eps,
                                          .weight_decay = decay,
                                          .decoupled_weight_decay = decoupled,
                                          .decays = decay_filter(decays)});
          },
          "lr"_a = 1e-3, "betas"_a = Betas(0.9, 0.999), "eps"_a = 1e-8, "weight_decay"_a = 0.0,
          "decoupled_weight_decay"_a = false, nb::kw_only(), "decays"_a.none() = nb::none());
  nb::class_<Lamb, Optimizer>(m, "Lamb").def(
      "__init__",
      [](Lamb* self, double lr, Betas betas, double eps, double decay, nb::handle decays) {
        new (self) Lamb(LambOptions{.lr = lr,
                                    .beta1 = betas.first,
                                    .beta2 = betas.second,
                                    .eps = eps,
                                    .weight_decay = decay,
                                    .decays = decay_filter(decays)});
      },
      "lr"_a = 1e-3, "betas"_a = Betas(0.9, 0.999), "eps"_a = 1e-6, "weight_decay"_a = 1e-2, nb::kw_only(),
      "decays"_a.none() = nb::none());
  nb::class_<Lion, Optimizer>(m, "Lion").def(
      "__init__",
      [](Lion* self, double lr, Betas betas, double decay, nb::handle decays) {
        new (self) Lion(LionOptions{.lr = lr,
                                    .beta1 = betas.first,
                                    .beta2 = betas.second,
                                    .weight_decay = decay,
                                    .decays = decay_filter(decays)});
      },
      "lr"_a = 1e-4, "betas"_a = Betas(0.9, 0.99), "weight_decay"_a = 0.0, nb::kw_only(),
      "decays"_a.none() = nb::none());
}

void bind_others(nb::module_& m) {
  nb::class_<Sgd, Optimizer>(m, "SGD")
      .def(
          "__init__",
          [](Sgd* self, double lr, double momentum, double dampening, double decay, bool nesterov, nb::handle decays) {
            new (self) Sgd(SgdOptions{.lr = lr,
                                      .momentum = momentum,
                                      .dampening = dampening,
                                      .weight_decay = decay,
                                      .nesterov = nesterov,
                                      .decays = decay_filter(decays)});
          },
          "lr"_a = 1e-3, "momentum"_a = 0.0, "dampening"_a = 0.0, "weight_decay"_a = 0.0, "nesterov"_a = false,
          nb::kw_only(), "decays"_a.none() = nb::none())
      .def("set_momentum", &Sgd::set_momentum, "momentum"_a);
  nb::class_<RMSprop, Optimizer>(m, "RMSprop")
      .def(
          "__init__",
          [](RMSprop* self, double lr, double alpha, double eps, double decay, double momentum, bool centered,
             nb::handle decays) {
            new (self) RMSprop(RMSpropOptions{.lr = lr,
                                              .alpha = alpha,
                                              .eps = eps,
                                              .weight_decay = decay,
                                              .momentum = momentum,
                                              .centered = centered,
                                              .decays = decay_filter(decays)});
          },
          "lr"_a = 1e-2, "alpha"_a = 0.99, "eps"_a = 1e-8, "weight_decay"_a = 0.0, "momentum"_a = 0.0,
          "centered"_a = false, nb::kw_only(), "decays"_a.none() = nb::none());
  nb::class_<Adagrad, Optimizer>(m, "Adagrad")
      .def(
          "__init__",
          [](Adagrad* self, double lr, double lr_decay, double decay, double initial, double eps, nb::handle decays) {
            new (self) Adagrad(AdagradOptions{.lr = lr,
                                              .lr_decay = lr_decay,
                                              .weight_decay = decay,
                                              .initial_accumulator_value = initial,
                                              .eps = eps,
                                              .decays = decay_filter(decays)});
          },
          "lr"_a = 1e-2, "lr_decay"_a = 0.0, "weight_decay"_a = 0.0, "initial_accumulator_value"_a = 0.0,
          "eps"_a = 1e-10, nb::kw_only(), "decays"_a.none() = nb::none());
  nb::class_<Lars, Optimizer>(m, "Lars").def(
      "__init__",
      [](Lars* self, double lr, double momentum, double decay, double trust, double eps, nb::handle decays) {
        new (self) Lars(LarsOptions{.lr = lr,
                                    .momentum = momentum,
                                    .weight_decay = decay,
                                    .trust_coefficient = trust,
                                    .eps = eps,
                                    .decays = decay_filter(decays)});
      },
      "lr"_a = 1e-1, "momentum"_a = 0.9, "weight_decay"_a = 0.0, "trust_coefficient"_a = 1e-3, "eps"_a = 0.0,
      nb::kw_only(), "decays"_a.none() = nb::none());
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
      .def("_step", [](LossScaler& s, Optimizer& o, const Named& parameters, const Named& buffers, const Gradients& g) {
        Flat model = flat(parameters, buffers);
        const bool stepped = s.step(o, model, g);
        return nb::make_tuple(stepped, model.tensors, model.kept_tensors());
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
  nb::class_<Optimizer>(
      m, "Optimizer",
      "Owns state (moments, numbers of steps) by parameter name and no parameters: step() gives the model new ones.")
      .def_prop_rw("lr", &Optimizer::lr, &Optimizer::set_lr)
      .def("state", &Optimizer::state, "The state tensors by name, for saving.")
      .def("load_state", &Optimizer::load_state, "state"_a)
      .def("_print_step",
           [](const Optimizer& o, const Named& parameters, const Named& buffers, const Gradients& gradients) {
             Flat model = flat(parameters, buffers);
             return o.print_step(model, gradients);
           })
      .def("_step", [](Optimizer& o, const Named& parameters, const Named& buffers, const Gradients& gradients) {
        Flat model = flat(parameters, buffers);
        o.step(model, gradients);
        return nb::make_tuple(model.tensors, model.kept_tensors());
      });
  bind_adam_family(m);
  bind_others(m);
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
      .def("add", &GradientAccumulator::add, "gradients"_a)
      .def_prop_ro("count", &GradientAccumulator::count)
      .def("take_sum", &GradientAccumulator::take_sum)
      .def("take_mean", &GradientAccumulator::take_mean);
}

}  // namespace ebb::python
