// SPDX-License-Identifier: MIT
// Is my gradient right? Checks a formula, a hand-written rule and a rule with a mistake against finite differences, in
// f64 and in fewer bits, for first and second derivatives.
#include <cmath>
#include <iostream>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

using Many = std::vector<Tensor>;

// A user's formula: the logarithm of the hyperbolic cosine of the error, in a form that does not overflow.
//   log cosh d = |d| + log(1 + e^(−2|d|)) − log 2
Tensor log_cosh(const Tensor& input, const Tensor& target) {
  const Tensor a = abs(input - target);
  return mean(a + log1p(exp(-2.0 * a)) - std::log(2.0));
}

// The same with a rule of its own, d log cosh d = tanh d, times `factor`. Only a factor of 1 is correct.
Tensor with_rule(const Tensor& input, const Tensor& target, double factor) {
  return custom_function([](const Many& in) { return log_cosh(in[0], in[1]); },
                         [factor](const Tensor& grad, const Tensor&, const Many& in) {
                           const Tensor g = factor * grad * tanh(in[0] - in[1]) / static_cast<double>(in[0].numel());
                           return Many{g, -g};
                         },
                         {input, target});
}

bool report(const char* what, bool expected, const GradcheckReport& r) {
  std::cout << what << "\n" << r << "\n\n";
  return r.passed() == expected;
}

}  // namespace

int main() {
  manual_seed(1);
  const Tensor x = randn({2, 3}, DType::f64), y = randn({2, 3}, DType::f64);
  const FunctionOfMany formula = [](const Many& in) { return log_cosh(in[0], in[1]); };
  const FunctionOfMany rule = [](const Many& in) { return with_rule(in[0], in[1], 1); };
  const FunctionOfMany wrong = [](const Many& in) { return with_rule(in[0], in[1], 1.001); };

  bool good = true;
  good &= report("The formula, f64:", true, check_gradients(formula, {x, y}));
  good &= report("Its second derivatives:", true, check_second_gradients(formula, {x, y}));
  for (DType dtype : {DType::f32, DType::bf16}) {
    good &= report(("The formula, " + std::string(name(dtype)) + ":").c_str(), true,
                   check_gradients(formula, {cast(x, dtype), cast(y, dtype)}));
  }
  good &= report("The rule written by hand:", true, check_gradients(rule, {x, y}));
  good &= report("Its second derivatives:", true, check_second_gradients(rule, {x, y}));
  good &= report("A rule that is wrong by one part in a thousand:", false, check_gradients(wrong, {x, y}));

  // In tests: an exception with the same table.
  try {
    require_gradients(wrong, {x, y});
    good = false;
  } catch (const Error& e) {
    std::cout << "As an exception: " << std::string(e.what()).substr(0, 60) << "...\n";
  }
  std::cout << (good ? "All as it should be: the mistake alone was found.\n" : "Something is wrong here.\n");
  return good ? 0 : 1;
}
