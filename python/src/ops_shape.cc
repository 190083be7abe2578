// SPDX-License-Identifier: MIT
#include "options.h"

namespace ebb::python {
namespace {

// x.reshape(2, 3) and x.reshape((2, 3)).
std::vector<std::int64_t> sizes_in(const char* op, const nb::args& args) {
  std::vector<std::int64_t> sizes;
  const nb::handle source = args.size() == 1 ? nb::handle(args[0]) : nb::handle(args);
  if (!integers_from_object(source, sizes))
    throw Error(Error::Kind::type, std::string(op) + ": sizes and axes are integers");
  return sizes;
}

Tensor pad_by(const Tensor& x, const std::vector<std::int64_t>& amounts, const std::string& mode, Scalar value) {
  return pad(x, amounts, pad_mode("pad", mode), value);
}

// None names every axis, () none of them.
Tensor over_named(Tensor (*f)(const Tensor&, const Axes&), const Tensor& x, const std::optional<Axes>& axes) {
  return axes && axes->empty() ? x : f(x, axes.value_or(Axes()));
}

}  // namespace

PadMode pad_mode(const char* op, const std::string& name) {
  if (name == "constant") return PadMode::constant;
  if (name == "reflect") return PadMode::reflect;
  if (name == "replicate") return PadMode::replicate;
  throw Error(std::string(op) + ": the mode is 'constant', 'reflect' or 'replicate', got '" + name + "'");
}

void bind_shape(const Api& api) {
  function(api, "reshape", reshape, "x"_a, "shape"_a);
  function(api, "permute", permute, "x"_a, "axes"_a);
  function(api, "expand", expand, "x"_a, "sizes"_a);
  function(api, "repeat", repeat, "x"_a, "repeats"_a);
  method(api, "reshape", [](const Tensor& x, nb::args a) { return reshape(x, sizes_in("reshape", a)); });
  method(api, "view", [](const Tensor& x, nb::args a) { return reshape(x, sizes_in("view", a)); });
  method(api, "permute", [](const Tensor& x, nb::args a) { return permute(x, sizes_in("permute", a)); });
  method(api, "expand", [](const Tensor& x, nb::args a) { return expand(x, sizes_in("expand", a)); });
  method(api, "repeat", [](const Tensor& x, nb::args a) { return repeat(x, sizes_in("repeat", a)); });
  both(api, "flatten", flatten, "first"_a = 0, "last"_a = -1);
  both(
      api, "squeeze", [](const Tensor& x, std::optional<Axes> axis) { return over_named(squeeze, x, axis); },
      "axis"_a.none() = nb::none());
  both(api, "unsqueeze", unsqueeze, "axis"_a);
  both(api, "transpose", transpose, "a"_a, "b"_a);
  both(api, "t", t);
  both(api, "broadcast_to", broadcast_to, "shape"_a);
  both(api, "sum_to", sum_to, "shape"_a);
  both(api, "narrow", narrow, "axis"_a, "start"_a, "length"_a);
  both(
      api, "slice",
      [](const Tensor& x, std::int64_t axis, std::int64_t start, std::optional<std::int64_t> stop, std::int64_t step) {
        return slice(x, axis, start, stop.value_or(kEnd), step);
      },
      "axis"_a, "start"_a, "stop"_a.none() = nb::none(), "step"_a = 1);
  both(api, "select", select, "axis"_a, "index"_a);
  both(
      api, "split", [](const Tensor& x, std::int64_t size, std::int64_t axis) { return split(x, size, axis); },
      "size"_a, "axis"_a = 0);
  both(
      api, "split",
      [](const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis) { return split(x, sizes, axis); },
      "size"_a, "axis"_a = 0);
  both(api, "chunk", chunk, "chunks"_a, "axis"_a = 0);
  function(api, "cat", cat, "tensors"_a, "axis"_a = 0);
  function(api, "stack", stack, "tensors"_a, "axis"_a = 0);
  both(api, "pad", pad_by, "pad"_a, "mode"_a = "constant", "value"_a = 0.0);
  both(
      api, "flip", [](const Tensor& x, std::optional<Axes> axis) { return over_named(flip, x, axis); },
      "axis"_a.none() = nb::none());
  both(api, "roll", roll, "shifts"_a, "axis"_a.none() = nb::none());
  both(api, "tril", tril, "diagonal"_a = 0);
  both(api, "triu", triu, "diagonal"_a = 0);
  both(api, "diag", diag, "diagonal"_a = 0);
  both(api, "diagonal", diagonal, "offset"_a = 0, "a"_a = 0, "b"_a = 1);
  both(api, "contiguous", contiguous);
  function(
      api, "broadcast_shapes",
      [](const Shape& a, const Shape& b) { return broadcast_shapes("broadcast_shapes", a, b); }, "a"_a, "b"_a);
}

}  // namespace ebb::python
