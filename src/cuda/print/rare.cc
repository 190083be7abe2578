// Arms of choices that data hardly ever take.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/printer.h"

namespace ebb::cuda {

constexpr double kFewestInstructions = 6;  // of an arm: a branch costs about two

// Infinities and NaN are rare where somebody asks for them; so is what holds only there.
bool Printer::is_rare(std::int32_t mask, bool value) const {
  const Instr& i = instr(mask);
  if (i.kind != Kind::compute) return false;
  switch (i.op) {
    case Op::isinf:
    case Op::isnan:
      return value;
    case Op::isfinite:
      return !value;
    case Op::logical_not:
      return is_rare(i.arg[0], !value);
    case Op::logical_and:
      return value && (is_rare(i.arg[0], true) || is_rare(i.arg[1], true));
    case Op::logical_or:
      return !value && (is_rare(i.arg[0], false) || is_rare(i.arg[1], false));
    default:
      return false;
  }
}

// The values of the pass that only the rare arm of choice v needs, in order: none where they are not worth a branch.
std::vector<std::int32_t> Printer::rare_arm(const Pass& pass, std::int32_t v) const {
  const Instr& choice = instr(v);
  if (choice.kind != Kind::compute || choice.op != Op::where) return {};
  const int which = is_rare(choice.arg[0], true) ? 1 : is_rare(choice.arg[0], false) ? 2 : 0;
  if (which == 0 || choice.arg[1] == choice.arg[2]) return {};
  std::vector<char> needed_elsewhere(static_cast<std::size_t>(n_));
  for (const std::int32_t u : roots_of(pass)) needed_elsewhere[static_cast<std::size_t>(u)] = 1;
  for (const KeptValue& k : pass.keeps) needed_elsewhere[static_cast<std::size_t>(k.value)] = 1;
  for (const KeptValue& k : pass.found) needed_elsewhere[static_cast<std::size_t>(k.value)] = 1;
  std::vector<char> inside(static_cast<std::size_t>(n_));
  std::vector<std::int32_t> arm;
  double cost = 0;
  for (std::int32_t u = v; u-- > 0;) {
    const Instr& i = instr(u);
    if (!pass.needed[static_cast<std::size_t>(u)] || needed_elsewhere[static_cast<std::size_t>(u)]) continue;
    if (i.kind != Kind::compute && i.kind != Kind::convert && i.kind != Kind::round) continue;
    if (is_check(u) || is_power(u)) continue;  // more than one value's text
    bool used = false, only_inside = true;
    for (std::int32_t w = u + 1; w < n_ && only_inside; ++w) {
      const Instr& user = instr(w);
      if (!pass.needed[static_cast<std::size_t>(w)] || user.kind == Kind::load) continue;
      for (int k = 0; k < 3; ++k) {
        if (user.arg[k] != u) continue;
        used = true;
        only_inside &= w == v ? k == which : inside[static_cast<std::size_t>(w)] != 0;
      }
    }
    if (!used || !only_inside) continue;
    inside[static_cast<std::size_t>(u)] = 1;
    arm.push_back(u);
    cost += instructions_of(p_, u, coarse_[static_cast<std::size_t>(u)] != 0);
  }
  if (cost < kFewestInstructions) return {};
  std::reverse(arm.begin(), arm.end());
  return arm;
}

// The choice as a branch: what its rare arm needs is made there.
std::string Printer::define_with_branch(std::int32_t v, const std::vector<std::int32_t>& arm) {
  const Instr& i = instr(v);
  const bool value = is_rare(i.arg[0], true);
  std::string text = fmt::format("auto {} = {};\n", name(v), name(i.arg[value ? 2 : 1])), in = "rarely();\n";
  for (const std::int32_t u : arm) in += define(u);
  in += fmt::format("{} = {};\n", name(v), name(i.arg[value ? 1 : 2]));
  return text + fmt::format("if ({}{}) {{\n", value ? "" : "!", name(i.arg[0])) + indented(in, "  ") + "}\n";
}

}  // namespace ebb::cuda
