// Neighbours two at a time: where halves are rounded after every operation, one instruction makes two of them.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {
namespace {

constexpr int kWorthIt = 2;  // sums and products of halves that are made in pairs

const char* flag(DType d) { return d == DType::bf16 ? "true" : "false"; }

// Operations whose result, where all they take are halves, is one without rounding.
bool keeps_halves(Op op) { return op == Op::neg || op == Op::abs || op == Op::maximum; }

// What Halves of the prelude can do.
const char* halves_function(Op op) {
  switch (op) {
    case Op::add:
      return "sum_of";
    case Op::sub:
      return "difference_of";
    case Op::mul:
    case Op::square:
      return "product_of";
    case Op::neg:
      return "negative_of";
    case Op::abs:
      return "size_of";
    case Op::maximum:
      return "larger_of";
    default:
      return nullptr;
  }
}

// What Two of the prelude can do, where functions are the quick ones.
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

}  // namespace

// The half whose numbers v holds, the same for the whole leaf or not; f32 where it holds others.
std::vector<DType> Printer::half_numbers() const {
  std::vector<DType> of(p_.instrs.size(), DType::f32);
  const auto at = [&](std::int32_t v) { return of[static_cast<std::size_t>(v)]; };
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    DType& half = of[static_cast<std::size_t>(v)];
    if (i.type != RegType::f32) continue;
    if (i.kind == Kind::load) {
      const Operand& o = p_.operands[static_cast<std::size_t>(i.arg[0])];
      if (o.kind == Operand::Kind::memory || o.kind == Operand::Kind::constant) half = o.dtype;
    } else if (i.kind == Kind::round) {
      half = i.dtype;
    } else if (i.kind == Kind::compute && (i.op == Op::where || i.op == Op::maximum)) {
      const std::size_t first = i.op == Op::where;
      const DType a = at(i.arg[first]), b = at(i.arg[first + 1]);
      if (a == b) half = a;
    } else if (i.kind == Kind::compute && (i.op == Op::copy || i.op == Op::check || keeps_halves(i.op))) {
      half = at(i.arg[0]);
    }
    if (!is_half(half)) half = DType::f32;
  }
  return of;
}

// The half in which v is computed in pairs, as it is or as what is rounded next; false where it is not.
bool Printer::is_made_of_halves(std::int32_t v, DType& dtype) const {
  const Instr& i = instr(v);
  if (i.kind != Kind::compute || i.type != RegType::f32 || !halves_function(i.op)) return false;
  dtype = half_numbers_[static_cast<std::size_t>(i.arg[0])];
  return is_half(dtype) && (i.arg[1] < 0 || half_numbers_[static_cast<std::size_t>(i.arg[1])] == dtype);
}

// How the values of a pass are held, if that is in pairs.
bool Printer::choose_forms(const Pass& pass) {
  forms_.assign(p_.instrs.size(), {});
  if (!layout_.vectors || layout_.width != kLeaf || !pass.sums.empty()) return false;
  for (const std::size_t o : pass.outputs) {
    const Output& out = p_.outputs[o];
    const Access access = layout_.access(out.strides, out.dtype);
    if (!is_half(out.dtype) || instr(out.value).level != Level::full || access == Access::one) return false;
  }
  for (const std::int32_t v : pass.reductions) {
    if (instr(v).type != RegType::f32 || instr(instr(v).arg[0]).type != RegType::f32) return false;
  }
  const auto used_by_rounding_only = [&](std::int32_t v) {
    if (std::any_of(pass.keeps.begin(), pass.keeps.end(), [&](const KeptValue& k) { return k.value == v; }))
      return false;
    if (std::any_of(p_.outputs.begin(), p_.outputs.end(), [&](const Output& o) { return o.value == v; })) return false;
    return std::all_of(p_.instrs.begin(), p_.instrs.end(), [&](const Instr& i) {
      if (i.kind == Kind::load || std::find(i.arg.begin(), i.arg.end(), v) == i.arg.end()) return true;
      DType half{};
      return i.kind == Kind::round && is_made_of_halves(v, half) && i.dtype == half;
    });
  };
  int made_in_pairs = 0;
  for (std::int32_t v = 0; v < n_; ++v) {
    if (!pass.needed[static_cast<std::size_t>(v)]) continue;
    const Instr& i = instr(v);
    Form& form = forms_[static_cast<std::size_t>(v)];
    const auto form_of = [&](std::int32_t u) { return forms_[static_cast<std::size_t>(u)].kind; };
    const auto found =
        std::find_if(pass.found.begin(), pass.found.end(), [&](const KeptValue& k) { return k.value == v; });
    if (i.level != Level::full || !coarse_[static_cast<std::size_t>(v)] || (i.type != RegType::f32 && !is_mask(i.type)))
      return false;
    form.kind = is_mask(i.type) ? Form::Kind::both : Form::Kind::two;
    if (found != pass.found.end()) {
      if (is_half(found->dtype)) form = {Form::Kind::halves, found->dtype};
      continue;
    }
    DType half{};
    switch (i.kind) {
      case Kind::load: {
        const Operand& o = p_.operands[static_cast<std::size_t>(i.arg[0])];
        if (o.kind != Operand::Kind::memory || (o.dtype != DType::f32 && !is_half(o.dtype))) return false;
        if (layout_.access(o.strides, o.dtype) == Access::one)
          form.kind = Form::Kind::one;
        else if (is_half(o.dtype))
          form = {Form::Kind::halves, o.dtype};
        break;
      }
      case Kind::round: {
        const std::int32_t from = i.arg[0];
        if (!is_half(i.dtype)) return false;
        if (form_of(from) == Form::Kind::one)
          form.kind = Form::Kind::one;
        else
          form = {Form::Kind::halves, i.dtype};
        made_in_pairs += form_of(from) == Form::Kind::rounded_next;
        break;
      }
      case Kind::compute:
        if (!may_be_two(i.op)) return false;
        if (i.op == Op::where && is_mask(instr(i.arg[1]).type)) return false;
        if (i.op == Op::copy || i.op == Op::check)
          form = forms_[static_cast<std::size_t>(i.arg[0])];
        else if (is_made_of_halves(v, half) && keeps_halves(i.op))
          form = {Form::Kind::halves, half};
        else if (is_made_of_halves(v, half) && used_by_rounding_only(v))
          form = {Form::Kind::rounded_next, half};
        break;
      case Kind::convert:
        if (i.type != RegType::f32 || !is_mask(instr(i.arg[0]).type)) return false;
        break;
      case Kind::place:
        if (i.type != RegType::f32) return false;
        break;
      default:
        return false;
    }
  }
  return made_in_pairs >= kWorthIt;
}

// The value as an argument of a function of Two, and as Halves.
std::string Printer::as_two(std::int32_t v) const {
  if (v < 0) return "";
  return forms_[static_cast<std::size_t>(v)].kind == Form::Kind::halves ? fmt::format("two({})", name(v)) : name(v);
}
std::string Printer::as_halves(std::int32_t v, DType dtype) const {
  const Form& form = forms_[static_cast<std::size_t>(v)];
  if (form.kind == Form::Kind::halves && form.dtype == dtype) return name(v);
  return fmt::format("halves<{}>({})", flag(dtype), as_two(v));
}

std::string Printer::define_two(const Pass& pass, std::int32_t v) {
  const Instr& i = instr(v);
  const Form& form = forms_[static_cast<std::size_t>(v)];
  const std::int32_t a = i.arg[0], b = i.arg[1], c = i.arg[2];
  const auto made = [&](const std::string& text) {
    const std::string type = form.kind == Form::Kind::one    ? "f32"
                             : form.kind == Form::Kind::both ? "Both"
                             : form.kind == Form::Kind::two  ? "Two"
                                                             : fmt::format("Halves<{}>", flag(form.dtype));
    return fmt::format("const {} {} = {};\n", type, name(v), text);
  };
  const auto of_pack = [&](const std::string& pack) {
    return form.kind == Form::Kind::halves ? fmt::format("{{{}.w[j >> 1]}}", pack)
                                           : fmt::format("{{{0}.at(j), {0}.at(j + 1)}}", pack);
  };
  const auto of_halves = [&](std::int32_t from, DType dtype) {
    const Instr& f = instr(from);
    const std::string first = as_halves(f.arg[0], dtype);
    const std::string second = f.op == Op::square ? ", " + first
                               : f.arg[1] < 0     ? ""
                                                  : ", " + as_halves(f.arg[1], dtype);
    return fmt::format("{}({}{})", halves_function(f.op), first, second);
  };
  if (std::any_of(pass.found.begin(), pass.found.end(), [&](const KeptValue& k) { return k.value == v; }))
    return made(of_pack(fmt::format("found{}", v)));
  switch (i.kind) {
    case Kind::load:
      return form.kind == Form::Kind::one ? define(v) : made(of_pack(fmt::format("x{}", a)));
    case Kind::round:
      if (form.kind == Form::Kind::one) return define(v);
      return made(forms_[static_cast<std::size_t>(a)].kind == Form::Kind::rounded_next ? of_halves(a, i.dtype)
                                                                                       : as_halves(a, i.dtype));
    case Kind::convert:
      return made(fmt::format("numbers_of({})", name(a)));
    case Kind::place:
      if (!placing_) return made(expression(v));
      return made(fmt::format("{{col == place{0} ? {1} : 0.0f, col + 1 == place{0} ? {1} : 0.0f}}", v, name(a)));
    default:
      break;
  }
  if (form.kind == Form::Kind::rounded_next) return "";
  if (i.op == Op::copy || i.op == Op::check) return made(name(a));
  if (form.kind == Form::Kind::halves) return made(of_halves(v, form.dtype));
  if (i.op == Op::where) return made(fmt::format("chosen({}, {}, {})", name(a), as_two(b), as_two(c)));
  if (is_power(v) && instr(b).level == Level::scalar)
    return logarithm_of_base(pass, v) +
           made(fmt::format("quick_power({}, {}, quick_log{})", as_two(a), exponent(b), a));
  if (const char* quick = i.type == RegType::f32 ? quick_function(i.op) : nullptr)
    return made(fmt::format("{}({}{}{})", quick, as_two(a), b < 0 ? "" : ", ", as_two(b)));
  return made(computed(i.op, instr(a).type, as_two(a), as_two(b), as_two(c)));
}

}  // namespace ebb::cuda
