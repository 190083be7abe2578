// SPDX-License-Identifier: MIT
// Arms of choices that data hardly ever take, and logarithms shared by powers.
#include <algorithm>

#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

// Infinities and NaN are rare where a program tests for them; so is everything that holds only for them.
bool is_rare(const Program& p, std::int32_t mask, bool value) {
  const Instr& i = instr(p, mask);
  if (i.kind != Kind::compute) return false;
  switch (i.op) {
    case Op::isinf:
    case Op::isnan:
      return value;
    case Op::isfinite:
      return !value;
    case Op::logical_not:
      return is_rare(p, i.arg[0], !value);
    case Op::logical_and:
      return value && (is_rare(p, i.arg[0], true) || is_rare(p, i.arg[1], true));
    case Op::logical_or:
      return !value && (is_rare(p, i.arg[0], false) || is_rare(p, i.arg[1], false));
    default:
      return false;
  }
}

// The values of the pass that only the rare arm of choice v needs, in order: none if they are not worth a branch.
RareArm rare_arm(const Program& p, const GpuModel& model, const KernelPlan& plan, const PassPlan& pass,
                 std::int32_t v) {
  const Instr& choice = instr(p, v);
  if (choice.kind != Kind::compute || choice.op != Op::where) return {};
  const int which = is_rare(p, choice.arg[0], true) ? 1 : is_rare(p, choice.arg[0], false) ? 2 : 0;
  if (which == 0 || choice.arg[1] == choice.arg[2]) return {};
  std::vector<char> needed_elsewhere(p.instrs.size());
  for (const std::int32_t u : roots_of(p, pass)) needed_elsewhere[at(u)] = 1;
  for (const KeptValue& k : pass.keeps) needed_elsewhere[at(k.value)] = 1;
  for (const KeptValue& k : pass.found) needed_elsewhere[at(k.value)] = 1;
  std::vector<char> inside(p.instrs.size());
  std::vector<std::int32_t> arm;
  double cost = 0;
  for (std::int32_t u = v; u-- > 0;) {
    const Instr& i = instr(p, u);
    if (!pass.needed[at(u)] || needed_elsewhere[at(u)]) continue;
    if (i.kind != Kind::compute && i.kind != Kind::convert && i.kind != Kind::round) continue;
    if (is_check(i) || is_power(i)) continue;  // has more text than its value's
    bool used = false, only_inside = true;
    for (std::int32_t w = u + 1; at(w) < p.instrs.size() && only_inside; ++w) {
      const Instr& user = instr(p, w);
      if (!pass.needed[at(w)] || user.kind == Kind::load) continue;
      for (int k = 0; k < 3; ++k) {
        if (user.arg[k] != u) continue;
        used = true;
        only_inside &= w == v ? k == which : inside[at(w)] != 0;
      }
    }
    if (!used || !only_inside) continue;
    inside[at(u)] = 1;
    arm.push_back(u);
    cost += instructions_of(p, u, plan.coarse[at(u)] != 0);
  }
  if (cost < model.rare_instructions) return {};
  std::reverse(arm.begin(), arm.end());
  return {v, which == 1, std::move(arm)};
}

// A value and its gradient have powers of one base. Exponents that are the same for all elements are inspected once.
// Powers found on chip need no logarithm, and among pairs those with an exponent per element compute their own.
std::vector<SharedLogarithm> logarithms_of(const Program& p, const KernelPlan& plan, const PassPlan& pass) {
  std::vector<SharedLogarithm> all;
  std::vector<std::int32_t> powers;
  for (std::int32_t v = 0; at(v) < p.instrs.size(); ++v) {
    if (pass.needed[at(v)] && is_power(instr(p, v))) powers.push_back(v);
  }
  const auto same_base = [&](std::int32_t v, std::int32_t u) {
    return instr(p, v).arg[0] == instr(p, u).arg[0] && plan.coarse[at(v)] == plan.coarse[at(u)];
  };
  const auto one_exponent = [&](std::int32_t v) { return instr(p, instr(p, v).arg[1]).level == Level::scalar; };
  for (const std::int32_t v : powers) {
    if (is_found(pass.found, v) || (pass.in_pairs() && !one_exponent(v))) continue;
    if (std::any_of(all.begin(), all.end(), [&](const SharedLogarithm& l) { return same_base(l.first, v); })) continue;
    SharedLogarithm& made = all.emplace_back(SharedLogarithm{v, {}});
    bool known = true;
    for (const std::int32_t u : powers) {
      if (!same_base(v, u)) continue;
      known &= one_exponent(u);
      made.exponents.push_back(instr(p, u).arg[1]);
    }
    if (!known) made.exponents.clear();
  }
  return all;
}

}  // namespace

void choose_rare_arms(const Program& p, const GpuModel& model, KernelPlan& plan) {
  for (PassPlan& pass : plan.passes) {
    pass.logarithms = logarithms_of(p, plan, pass);
    std::vector<char> in_arm(p.instrs.size());
    for (auto v = static_cast<std::int32_t>(pass.in_pairs() ? 0 : p.instrs.size()); v-- > 0;) {
      if (!pass.needed[at(v)] || in_arm[at(v)]) continue;
      RareArm arm = rare_arm(p, model, plan, pass, v);
      for (const std::int32_t u : arm.values) in_arm[at(u)] = 1;
      if (!arm.values.empty()) pass.rare_arms.push_back(std::move(arm));
    }
  }
}

}  // namespace ebb::cuda
