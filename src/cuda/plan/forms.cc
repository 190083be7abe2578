// SPDX-License-Identifier: MIT
// Neighbours two at a time: where halves are rounded after every operation, one instruction computes two of them.
#include <algorithm>

#include "cuda/plan/device_functions.h"
#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

// Operations whose result on halves needs no rounding to be a half.
bool keeps_halves(Op op) { return op == Op::neg || op == Op::abs || op == Op::maximum; }

// Operations that the prelude has for Two, where functions are the quick ones.
bool may_be_two(Op op) {
  switch (op) {
    case Op::copy:
    case Op::check:
    case Op::where:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::neg:
    case Op::square:
    case Op::abs:
    case Op::sign:
    case Op::fma:
    case Op::maximum:
    case Op::minimum:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::isnan:
    case Op::isinf:
    case Op::isfinite:
    case Op::logical_not:
    case Op::logical_and:
    case Op::logical_or:
      return true;
    default:
      return quick_function(op) != nullptr;
  }
}

// The half dtype that holds v's numbers exactly, for each value; f32 if none does.
std::vector<DType> half_numbers(const Program& p) {
  std::vector<DType> of(p.instrs.size(), DType::f32);
  for (std::size_t v = 0; v < of.size(); ++v) {
    const Instr& i = p.instrs[v];
    DType& half = of[v];
    if (i.type != RegType::f32) continue;
    if (i.kind == Kind::load) {
      const Operand& o = p.operands[at(i.arg[0])];
      if (o.kind == Operand::Kind::memory || o.kind == Operand::Kind::constant) half = o.dtype;
    } else if (i.kind == Kind::round) {
      half = i.dtype;
    } else if (i.kind == Kind::compute && (i.op == Op::where || i.op == Op::maximum)) {
      const std::size_t first = i.op == Op::where;
      const DType a = of[at(i.arg[first])], b = of[at(i.arg[first + 1])];
      if (a == b) half = a;
    } else if (i.kind == Kind::compute && (i.op == Op::copy || i.op == Op::check || keeps_halves(i.op))) {
      half = of[at(i.arg[0])];
    }
    if (!is_half(half)) half = DType::f32;
  }
  return of;
}

// Whether v is computed in pairs of halves, as it is or as what is rounded next; sets the dtype.
bool is_made_of_halves(const Program& p, const std::vector<DType>& halves, std::int32_t v, DType& dtype) {
  const Instr& i = instr(p, v);
  if (i.kind != Kind::compute || i.type != RegType::f32 || !halves_function(i.op)) return false;
  dtype = halves[at(i.arg[0])];
  return is_half(dtype) && (i.arg[1] < 0 || halves[at(i.arg[1])] == dtype);
}

// How the values of a pass are represented, if two neighbours are computed at a time; otherwise empty.
std::vector<Form> forms_of(const Program& p, const GpuModel& model, const KernelPlan& plan, const PassPlan& pass,
                           const std::vector<DType>& halves) {
  std::vector<Form> forms(p.instrs.size());
  if (pass.checks_at_once || !plan.vectors || plan.width != kLeaf || !pass.sums.empty()) return {};
  for (const std::size_t o : pass.outputs) {
    const Output& out = p.outputs[o];
    const Access access = plan.access(out.strides, out.dtype);
    if (!is_half(out.dtype) || instr(p, out.value).level != Level::full || access == Access::one) return {};
  }
  for (const std::int32_t v : pass.reductions) {
    if (instr(p, v).type != RegType::f32 || instr(p, instr(p, v).arg[0]).type != RegType::f32) return {};
  }
  const auto used_by_rounding_only = [&](std::int32_t v) {
    if (is_found(pass.keeps, v)) return false;
    if (std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.value == v; })) return false;
    return std::all_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& i) {
      if (i.kind == Kind::load || std::find(i.arg.begin(), i.arg.end(), v) == i.arg.end()) return true;
      DType half{};
      return i.kind == Kind::round && is_made_of_halves(p, halves, v, half) && i.dtype == half;
    });
  };
  int made_in_pairs = 0;
  for (std::int32_t v = 0; at(v) < forms.size(); ++v) {
    if (!pass.needed[at(v)]) continue;
    const Instr& i = instr(p, v);
    Form& form = forms[at(v)];
    const auto form_of = [&](std::int32_t u) { return forms[at(u)].kind; };
    const auto found =
        std::find_if(pass.found.begin(), pass.found.end(), [&](const KeptValue& k) { return k.value == v; });
    if (i.level != Level::full || !plan.coarse[at(v)] || (i.type != RegType::f32 && !is_mask(i.type))) return {};
    form.kind = is_mask(i.type) ? Form::Kind::both : Form::Kind::two;
    if (found != pass.found.end()) {
      if (is_half(found->dtype)) form = {Form::Kind::halves, found->dtype};
      continue;
    }
    DType half{};
    switch (i.kind) {
      case Kind::load: {
        const Operand& o = p.operands[at(i.arg[0])];
        if (o.kind != Operand::Kind::memory || (o.dtype != DType::f32 && !is_half(o.dtype))) return {};
        if (plan.access(o.strides, o.dtype) == Access::one)
          form.kind = Form::Kind::one;
        else if (is_half(o.dtype))
          form = {Form::Kind::halves, o.dtype};
        break;
      }
      case Kind::round: {
        const std::int32_t from = i.arg[0];
        if (!is_half(i.dtype)) return {};
        if (form_of(from) == Form::Kind::one)
          form.kind = Form::Kind::one;
        else
          form = {Form::Kind::halves, i.dtype};
        made_in_pairs += form_of(from) == Form::Kind::rounded_next;
        break;
      }
      case Kind::compute:
        if (!may_be_two(i.op)) return {};
        if (i.op == Op::where && is_mask(instr(p, i.arg[1]).type)) return {};
        if (i.op == Op::copy || i.op == Op::check)
          form = forms[at(i.arg[0])];
        else if (is_made_of_halves(p, halves, v, half) && keeps_halves(i.op))
          form = {Form::Kind::halves, half};
        else if (is_made_of_halves(p, halves, v, half) && used_by_rounding_only(v))
          form = {Form::Kind::rounded_next, half};
        break;
      case Kind::convert:
        if (i.type != RegType::f32 || !is_mask(instr(p, i.arg[0]).type)) return {};
        break;
      case Kind::place:
        if (i.type != RegType::f32) return {};
        break;
      default:
        return {};
    }
  }
  if (made_in_pairs < model.worth_pairing) return {};
  return forms;
}

}  // namespace

void choose_forms(const Program& p, const GpuModel& model, KernelPlan& plan) {
  const std::vector<DType> halves = half_numbers(p);
  for (PassPlan& pass : plan.passes) pass.forms = forms_of(p, model, plan, pass, halves);
}

}  // namespace ebb::cuda
