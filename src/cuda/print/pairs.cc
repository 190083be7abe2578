// SPDX-License-Identifier: MIT
// Neighbours two at a time.
#include <fmt/format.h>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {
namespace {

const char* flag(DType d) { return d == DType::bf16 ? "true" : "false"; }

}  // namespace

// The value as an argument of a function of Two, and as Halves.
std::string Printer::as_two(const PassPlan& pass, std::int32_t v) {
  if (v < 0) return "";
  return pass.forms[at(v)].kind == Form::Kind::halves ? fmt::format("two({})", name(v)) : name(v);
}
std::string Printer::as_halves(const PassPlan& pass, std::int32_t v, DType dtype) {
  const Form& form = pass.forms[at(v)];
  if (form.kind == Form::Kind::halves && form.dtype == dtype) return name(v);
  return fmt::format("halves<{}>({})", flag(dtype), as_two(pass, v));
}

std::string Printer::define_two(const Scope& scope, const PassPlan& pass, std::int32_t v) const {
  const Instr& i = instr(v);
  const Form& form = pass.forms[at(v)];
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
    const std::string first = as_halves(pass, f.arg[0], dtype);
    const std::string second = f.op == Op::square ? ", " + first
                               : f.arg[1] < 0     ? ""
                                                  : ", " + as_halves(pass, f.arg[1], dtype);
    return fmt::format("{}({}{})", halves_function(f.op), first, second);
  };
  if (is_found(pass.found, v)) return made(of_pack(fmt::format("found{}", v)));
  switch (i.kind) {
    case Kind::load:
      return form.kind == Form::Kind::one ? define(scope, v) : made(of_pack(fmt::format("x{}", a)));
    case Kind::round:
      if (form.kind == Form::Kind::one) return define(scope, v);
      return made(pass.forms[at(a)].kind == Form::Kind::rounded_next ? of_halves(a, i.dtype)
                                                                     : as_halves(pass, a, i.dtype));
    case Kind::convert:
      return made(fmt::format("numbers_of({})", name(a)));
    case Kind::place:
      if (!scope.places) return made(expression(scope, v));
      return made(fmt::format("{{col == place{0} ? {1} : 0.0f, col + 1 == place{0} ? {1} : 0.0f}}", v, name(a)));
    default:
      break;
  }
  if (form.kind == Form::Kind::rounded_next) return "";
  if (i.op == Op::copy || i.op == Op::check) return made(name(a));
  if (form.kind == Form::Kind::halves) return made(of_halves(v, form.dtype));
  if (i.op == Op::where) return made(fmt::format("chosen({}, {}, {})", name(a), as_two(pass, b), as_two(pass, c)));
  if (is_power(i) && instr(b).level == Level::scalar)
    return logarithm_of_base(pass, v) +
           made(fmt::format("quick_power({}, {}, quick_log{})", as_two(pass, a), exponent(b), a));
  if (const char* quick = i.type == RegType::f32 ? quick_function(i.op) : nullptr)
    return made(fmt::format("{}({}{}{})", quick, as_two(pass, a), b < 0 ? "" : ", ", as_two(pass, b)));
  return made(computed(i.op, instr(a).type, as_two(pass, a), as_two(pass, b), as_two(pass, c)));
}

}  // namespace ebb::cuda
