// SPDX-License-Identifier: MIT
#include "bind.h"
#include "graph/op_table.h"

namespace ebb::python {
namespace {

struct Unary {
  const char* name;
  Tensor (*f)(const Tensor&);
};

void note(std::vector<Unary>& all, const char* name, Tensor (*f)(const Tensor&)) { all.push_back({name, f}); }
template <class F>
void note(std::vector<Unary>&, const char*, F) {}  // of two or three numbers: below

// The functions of one number, from the op table.
std::vector<Unary> unary_functions() {
  std::vector<Unary> all;
#define EBB_NOTE(name, inputs, grad, domain, ...) EBB_NOTE_##domain(name)
#define EBB_NOTE_any(name)  // no functions of numbers: copy, cast, ...
#define EBB_NOTE_inner(name)  // formulas alone use them
#define EBB_NOTE_real(name) note(all, #name, &ebb::name);
#define EBB_NOTE_number(name) note(all, #name, &ebb::name);
#define EBB_NOTE_truth(name) note(all, #name, &ebb::name);
#define EBB_NOTE_bits(name)  // of two numbers
  EBB_OPS(EBB_SKIP_OP, EBB_SKIP_OP, EBB_NOTE, EBB_SKIP_OP, EBB_SKIP_OP, EBB_SKIP_OP, EBB_SKIP_OP)
#undef EBB_NOTE
#undef EBB_NOTE_any
#undef EBB_NOTE_inner
#undef EBB_NOTE_real
#undef EBB_NOTE_number
#undef EBB_NOTE_truth
#undef EBB_NOTE_bits
  note(all, "frac", frac);
  return all;
}

struct Binary {
  const char *name, *first, *second;
  Tensor (*f)(TensorOrScalar, TensorOrScalar);
};
constexpr Binary kBinary[] = {{"add", "a", "b", add},
                              {"sub", "a", "b", sub},
                              {"mul", "a", "b", mul},
                              {"div", "a", "b", div},
                              {"pow", "base", "exponent", pow},
                              {"floor_divide", "a", "b", floor_divide},
                              {"remainder", "a", "b", remainder},
                              {"maximum", "a", "b", maximum},
                              {"minimum", "a", "b", minimum},
                              {"atan2", "y", "x", atan2},
                              {"hypot", "a", "b", hypot},
                              {"xlogy", "x", "y", xlogy},
                              {"eq", "a", "b", eq},
                              {"ne", "a", "b", ne},
                              {"lt", "a", "b", lt},
                              {"le", "a", "b", le},
                              {"gt", "a", "b", gt},
                              {"ge", "a", "b", ge}};

struct Logic {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&);
};
constexpr Logic kLogic[] = {{"logical_and", logical_and}, {"logical_or", logical_or}, {"logical_xor", logical_xor}};

}  // namespace

void bind_elementwise(const Api& api) {
  for (const Unary& u : unary_functions()) both(api, u.name, u.f);
  for (const Binary& b : kBinary) {
    function(api, b.name, b.f, nb::arg(b.first), nb::arg(b.second));
    method(
        api, b.name, [f = b.f](const Tensor& a, TensorOrScalar other) { return f(a, other); }, nb::arg(b.second));
  }
  for (const Logic& l : kLogic) {
    function(api, l.name, l.f, "a"_a, "b"_a);
    method(api, l.name, l.f, "b"_a);
  }
  function(api, "polygamma", polygamma, "n"_a, "x"_a);
  function(api, "fma", fma, "x"_a, "m"_a, "a"_a);
  function(api, "affine", affine, "x"_a, "m"_a, "a"_a);
  function(api, "lerp", lerp, "start"_a, "end"_a, "weight"_a);
  method(api, "lerp", lerp, "end"_a, "weight"_a);
  both(api, "cast", cast, "dtype"_a);
  api.tensor.def("to", cast, "dtype"_a, doc("cast"));
  api.tensor.def(
      "to",
      [](const Tensor& x, nb::handle device, std::optional<DType> dtype) {
        if (const Tensor* like = tensor_in(device)) return cast(x, like->dtype()).to(like->device());
        const Tensor there = x.to(device_from(device));
        return dtype ? cast(there, *dtype) : there;
      },
      "device"_a, "dtype"_a.none() = nb::none(),
      "The same numbers in another dtype, or on another device ('cpu', 'cuda:0'), or both; or in those of a tensor.");
  method(api, "astype", cast, "dtype"_a);
  const auto close = [](const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
    return isclose(a, b, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
  };
  function(api, "isclose", close, "a"_a, "b"_a, nb::kw_only(), "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false);
  function(
      api, "allclose",
      [](const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
        return allclose(a, b, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
      },
      "a"_a, "b"_a, nb::kw_only(), "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false);
  function(api, "where", where, "mask"_a, "a"_a, "b"_a);
  both(api, "masked_fill", masked_fill, "mask"_a, "value"_a);
  both(api, "clamp", clamp, "lo"_a.none() = nb::none(), "hi"_a.none() = nb::none());
}

}  // namespace ebb::python
