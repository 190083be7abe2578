// SPDX-License-Identifier: MIT
#include "ebb/optim/minimize.h"

#include "bind.h"
#include "ebb/optim/schedule.h"

// Schedules of the learning rate, and minimisers.
namespace ebb::python {
namespace {

OneCycleOptions one_cycle(double max_lr, std::int64_t steps, double pct_start, const std::string& anneal,
                          double base_momentum, double max_momentum, double div_factor, double final_div_factor,
                          bool three_phase) {
  if (anneal != "cosine" && anneal != "linear")
    throw Error("one_cycle_schedule: anneal is 'cosine' or 'linear', got '" + anneal + "'");
  return {.max_lr = max_lr,
          .steps = steps,
          .pct_start = pct_start,
          .anneal = anneal == "cosine" ? Anneal::cosine : Anneal::linear,
          .base_momentum = base_momentum,
          .max_momentum = max_momentum,
          .div_factor = div_factor,
          .final_div_factor = final_div_factor,
          .three_phase = three_phase};
}

void bind_schedules(nb::module_& m) {
  m.def("constant_schedule", constant_schedule, doc("constant_schedule"), "lr"_a);
  m.def(
      "step_schedule",
      [](double lr, std::int64_t step_size, double gamma) {
        return step_schedule(lr, {.step_size = step_size, .gamma = gamma});
      },
      doc("step_schedule"), "lr"_a, "step_size"_a, "gamma"_a = 0.1);
  m.def("multistep_schedule", multistep_schedule, doc("multistep_schedule"), "lr"_a, "milestones"_a, "gamma"_a = 0.1);
  m.def("exponential_schedule", exponential_schedule, doc("exponential_schedule"), "lr"_a, "gamma"_a);
  m.def(
      "linear_schedule",
      [](double lr, double start, double end, std::int64_t steps) {
        return linear_schedule(lr, {.start_factor = start, .end_factor = end, .steps = steps});
      },
      doc("linear_schedule"), "lr"_a, "start_factor"_a = 1.0 / 3, "end_factor"_a = 1.0, "steps"_a = 5);
  m.def(
      "cosine_schedule",
      [](double lr, std::int64_t steps, double min_lr) {
        return cosine_schedule(lr, {.steps = steps, .min_lr = min_lr});
      },
      doc("cosine_schedule"), "lr"_a, "steps"_a, "min_lr"_a = 0.0);
  m.def("warm_up", warm_up, doc("warm_up"), "after"_a, "steps"_a, "start_factor"_a = 0.0);
  const OneCycleOptions o;
  m.def(
      "one_cycle_schedule",
      [](double max_lr, std::int64_t steps, double pct, const std::string& anneal, double div, double final_div,
         bool three) {
        return one_cycle_schedule(one_cycle(max_lr, steps, pct, anneal, 0.85, 0.95, div, final_div, three));
      },
      doc("one_cycle_schedule"), "max_lr"_a, "steps"_a, "pct_start"_a = o.pct_start, "anneal"_a = "cosine",
      "div_factor"_a = o.div_factor, "final_div_factor"_a = o.final_div_factor, "three_phase"_a = false);
  m.def(
      "one_cycle_momentum",
      [](std::int64_t steps, double pct, const std::string& anneal, double base, double max, bool three) {
        return one_cycle_momentum(one_cycle(0.1, steps, pct, anneal, base, max, 25, 1e4, three));
      },
      doc("one_cycle_momentum"), "steps"_a, "pct_start"_a = o.pct_start, "anneal"_a = "cosine",
      "base_momentum"_a = o.base_momentum, "max_momentum"_a = o.max_momentum, "three_phase"_a = false);
  nb::class_<ReduceOnPlateau>(
      m, "ReduceOnPlateau",
      "Multiplies the rate by factor when a metric has not become better for more than patience reports.")
      .def(
          "__init__",
          [](ReduceOnPlateau* self, double lr, bool maximize, double factor, int patience, double threshold,
             bool relative, int cooldown, double min_lr, double eps) {
            new (self) ReduceOnPlateau(lr, {.maximize = maximize,
                                            .factor = factor,
                                            .patience = patience,
                                            .threshold = threshold,
                                            .relative_threshold = relative,
                                            .cooldown = cooldown,
                                            .min_lr = min_lr,
                                            .eps = eps});
          },
          "lr"_a, nb::kw_only(), "maximize"_a = false, "factor"_a = 0.1, "patience"_a = 10, "threshold"_a = 1e-4,
          "relative_threshold"_a = true, "cooldown"_a = 0, "min_lr"_a = 0.0, "eps"_a = 1e-8)
      .def("__call__", &ReduceOnPlateau::operator(), "metric"_a, "The rate from now on.")
      .def_prop_ro("lr", &ReduceOnPlateau::lr);
}

}  // namespace

void bind_minimize(const Api& api) {
  nb::module_ m = nb::borrow<nb::module_>(api.module.attr("_optim"));
  bind_schedules(m);
  nb::class_<Minimum>(m, "Minimum", "Where a minimiser ended.")
      .def_ro("x", &Minimum::x)
      .def_ro("value", &Minimum::value)
      .def_ro("gradient_norm", &Minimum::gradient_norm)
      .def_ro("iterations", &Minimum::iterations)
      .def_ro("evaluations", &Minimum::evaluations)
      .def_ro("products", &Minimum::products)
      .def_ro("converged", &Minimum::converged);
  m.def(
      "_minimize_lbfgs",
      [](const Function& f, const Tensor& x, int history, int max_iterations, double tolerance, double change_tolerance,
         double c1, double c2) {
        return minimize_lbfgs(f, x,
                              {.history = history,
                               .max_iterations = max_iterations,
                               .tolerance = tolerance,
                               .change_tolerance = change_tolerance,
                               .c1 = c1,
                               .c2 = c2});
      },
      doc("minimize_lbfgs"), "f"_a, "x"_a, nb::kw_only(), "history"_a = 10, "max_iterations"_a = 100,
      "tolerance"_a = 1e-7, "change_tolerance"_a = 1e-12, "c1"_a = 1e-4, "c2"_a = 0.9);
  // For the parameters of a Python model: `assign` puts them there before the loss is asked for.
  m.def("_minimize_model",
        [](const std::function<Tensor()>& loss, const std::function<void(const std::vector<Tensor>&)>& assign,
           std::vector<Tensor> tensors, int history, int max_iterations, double tolerance, double change_tolerance,
           double c1, double c2) {
          Parameters parameters;
          for (Tensor& t : tensors) parameters.push_back({std::to_string(parameters.size()), &t});
          const auto with_assigned = [&] {
            assign(tensors);
            return loss();
          };
          const Minimum found = minimize_lbfgs(std::function<Tensor()>(with_assigned), parameters,
                                               {.history = history,
                                                .max_iterations = max_iterations,
                                                .tolerance = tolerance,
                                                .change_tolerance = change_tolerance,
                                                .c1 = c1,
                                                .c2 = c2});
          assign(tensors);
          return found;
        });
  m.def(
      "minimize_newton_cg",
      [](const Function& f, const Tensor& x, int max_iterations, int max_products, double tolerance, double c1) {
        return minimize_newton_cg(
            f, x, {.max_iterations = max_iterations, .max_products = max_products, .tolerance = tolerance, .c1 = c1});
      },
      doc("minimize_newton_cg"), "f"_a, "x"_a, nb::kw_only(), "max_iterations"_a = 100, "max_products"_a = 0,
      "tolerance"_a = 1e-7, "c1"_a = 1e-4);
}

}  // namespace ebb::python
