// SPDX-License-Identifier: MIT
#include "gradcheck.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cases/all_cases.h"
#include "cases/loss_cases.h"
#include "choices.h"
#include "commands.h"
#include "core/format_error.h"
#include "device_option.h"
#include "ebb/gradcheck.h"
#include "text_table.h"

// `ebb gradcheck`: every operation and loss against central differences, once and twice, in every floating dtype.
namespace ebb::program {
namespace {

// A gradient g is compared with differences d taken in f64 at the same inputs: |g − d| <= relative·(|d| + floor).
struct Bound {
  DType dtype;
  double relative, floor;
};
constexpr Bound kBounds[] = {
    {DType::f64, 1e-6, 1e-2}, {DType::f32, 1e-5, 1e-1}, {DType::f16, 1e-2, 1e-1}, {DType::bf16, 2e-2, 0.5}};
// The second gradient adds roundings to those of the first.
constexpr double kSecond = 4;

struct Subject {
  std::string kind, name;
  FunctionOfMany call;
  std::function<std::vector<Tensor>(DType)> inputs;
  bool halves = true;
  double loose = 1, loose_narrow = 1;
};

std::vector<Subject> all_subjects() {
  std::vector<Subject> all;
  for (const table::Case& c : table::all_cases()) {
    if (info(c.op).grad != OpGrad::yes) continue;
    Subject s{"operation", c.name, c.call, {}, c.halves, c.loose_gradient, c.loose_narrow};
    s.inputs = [&c](DType dtype) { return table::draw(c, c.shapes[0], dtype, table::Layout::contiguous, 6).tensors; };
    all.push_back(std::move(s));
  }
  for (const cases::LossCase& c : cases::loss_cases()) {
    if (!cases::gradient_is_slope(c.loss)) continue;
    const cases::LossFunction f = cases::function_of(c);
    Subject s{"loss", std::string(c.loss), f.call, {}};
    s.inputs = [moving = f.moving](DType dtype) {
      std::vector<Tensor> rounded;
      for (const Tensor& x : moving) rounded.push_back(cast(x, dtype).eval());
      return rounded;
    };
    all.push_back(std::move(s));
  }
  return all;
}

// In units of the bound's relative part: printed numbers are comparable across inputs, and pass if they are at most
// `relative`.
double worst_error(const GradcheckReport& report, const Bound& bound) {
  double worst = 0;
  for (const GradcheckReport::Row& row : report.rows) {
    const double error = std::abs(row.analytic - row.numeric) / (std::abs(row.numeric) + bound.floor);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

struct Result {
  const Subject* subject;
  Bound bound;
  double first = 0, second = 0, first_limit = 0, second_limit = 0;
  bool passed() const { return first <= first_limit && second <= second_limit; }
};

Result check(const Subject& s, const Bound& bound) {
  const double factor = s.loose * (bound.dtype == DType::f64 ? 1 : s.loose_narrow);
  Result r{&s, bound};
  r.first_limit = bound.relative * factor;
  r.second_limit = kSecond * r.first_limit;
  const auto options = [&](double limit) { return GradcheckOptions{.rtol = limit, .atol = limit * bound.floor}; };
  const std::vector<Tensor> inputs = s.inputs(bound.dtype);
  r.first = worst_error(check_gradients(s.call, inputs, options(r.first_limit)), bound);
  r.second = worst_error(check_second_gradients(s.call, inputs, options(r.second_limit)), bound);
  return r;
}

bool selected(const std::string& name, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return true;
  for (const std::string& p : patterns) {
    if (::fnmatch(p.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

void run_gradcheck(const std::vector<std::string>& patterns, const std::vector<std::string>& dtypes, bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  TextTable table({"", "name", "dtype", "gradient", "allowed", "second", "allowed", ""}, {3, 4, 5, 6});
  int count = 0, failures = 0;
  for (const Subject& s : all_subjects()) {
    if (!selected(s.name, patterns)) continue;
    for (const Bound& bound : kBounds) {
      if (!selected(std::string(name(bound.dtype)), dtypes) || (is_half(bound.dtype) && !s.halves)) continue;
      const Result r = check(s, bound);
      ++count;
      failures += !r.passed();
      if (json) {
        list.push_back({{"kind", s.kind},
                        {"name", s.name},
                        {"dtype", name(bound.dtype)},
                        {"gradient_error", r.first},
                        {"gradient_allowed", r.first_limit},
                        {"second_error", r.second},
                        {"second_allowed", r.second_limit},
                        {"passed", r.passed()}});
      } else {
        table.add({s.kind, s.name, std::string(name(bound.dtype)), fmt::format("{:.1e}", r.first),
                   fmt::format("{:.1e}", r.first_limit), fmt::format("{:.1e}", r.second),
                   fmt::format("{:.1e}", r.second_limit), r.passed() ? "ok" : "FAILED"});
      }
    }
  }
  if (count == 0) {
    throw CLI::ValidationError(fmt::format(
        "gradcheck: no operation or loss with a gradient is called {}; patterns are those of the shell, as in '*_loss'",
        fmt::join(patterns, " or ")));
  }
  fmt::print("{}", json ? list.dump(2) + "\n" : table.str());
  if (!json) fmt::print("{} checks, {} failed\n", count, failures);
  require(failures == 0, "gradcheck: {} of {} gradients differ from central differences by more than allowed", failures,
          count);
}

}  // namespace

std::vector<std::string> gradcheck_names() {
  std::vector<std::string> names;
  for (const Subject& s : all_subjects()) names.push_back(s.name);
  return names;
}

void add_gradcheck_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> patterns, dtypes;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("gradcheck", "Hold the gradients of operations and losses against central differences");
  command->add_option("names", o->patterns, "Only these, e.g. 'conv*' or mse_loss; default: all")->type_name("GLOB");
  command->add_option("--dtype", o->dtypes, "Only these; may be repeated")
      ->check(one_of({"f64", "f32", "f16", "bf16"}))
      ->allow_extra_args(false);
  add_device_option(*command);
  command->add_flag("--json", o->json, "As JSON");
  command->footer(
      "An error is |gradient - difference| / (|difference| + a floor of the dtype), the worst over all elements; the\n"
      "differences are taken in f64 at the same inputs. The exit code is 1 if one is larger than allowed.");
  command->callback([o] { run_gradcheck(o->patterns, o->dtypes, o->json); });
}

}  // namespace ebb::program
