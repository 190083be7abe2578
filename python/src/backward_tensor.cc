// SPDX-License-Identifier: MIT
#include "ebb/backward.h"
#include "options.h"

// The gradient rules of reductions, shapes, indices and linear algebra.
namespace ebb::python {
namespace {

struct ReductionOfX {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&, const Axes&, bool);
};
constexpr ReductionOfX kReductionsOfX[] = {{"prod_backward", prod_backward},
                                           {"max_backward", max_backward},
                                           {"min_backward", min_backward},
                                           {"logsumexp_backward", logsumexp_backward}};

struct Reshaping {
  const char* name;
  Tensor (*f)(const Tensor&, const Shape&);
};
constexpr Reshaping kReshaping[] = {{"reshape_backward", reshape_backward}, {"flatten_backward", flatten_backward},
                                    {"squeeze_backward", squeeze_backward}, {"unsqueeze_backward", unsqueeze_backward},
                                    {"expand_backward", expand_backward},   {"sum_to_backward", sum_to_backward}};

using Pair = std::pair<Tensor, Tensor>;
struct OfTensorsBackward {
  const char* name;
  Pair (*f)(const Tensor&, const Tensor&, const Tensor&);
};
constexpr OfTensorsBackward kOfTensorsBackward[] = {
    {"matmul_backward", matmul_backward}, {"dot_backward", dot_backward}, {"outer_backward", outer_backward}};

struct Scattering {
  const char* name;
  Pair (*f)(const Tensor&, std::int64_t, const Tensor&);
};
constexpr Scattering kScattering[] = {{"scatter_backward", scatter_backward},
                                      {"scatter_add_backward", scatter_add_backward},
                                      {"index_add_backward", index_add_backward}};

void bind_reductions(const Api& api) {
  for (auto [name, f] : {std::pair{"sum_backward", &sum_backward}, {"mean_backward", mean_backward}})
    function(api, name, f, "grad"_a, "shape"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  for (const ReductionOfX& r : kReductionsOfX)
    function(api, r.name, r.f, "grad"_a, "x"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  for (auto [name, f] : {std::pair{"var_backward", &var_backward}, {"stddev_backward", stddev_backward}})
    function(api, name, f, "grad"_a, "x"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false, "correction"_a = 1.0);
  function(api, "norm_backward", norm_backward, "grad"_a, "x"_a, "p"_a = 2.0, "axis"_a.none() = nb::none(),
           "keepdim"_a = false);
  function(api, "cumsum_backward", cumsum_backward, "grad"_a, "axis"_a);
  function(api, "cumprod_backward", cumprod_backward, "grad"_a, "x"_a, "axis"_a);
  function(api, "median_backward", median_backward, "grad"_a, "x"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  function(api, "quantile_backward", quantile_backward, "grad"_a, "x"_a, "q"_a, "axis"_a.none() = nb::none(),
           "keepdim"_a = false);
}

void bind_shapes(const Api& api) {
  for (const Reshaping& r : kReshaping) function(api, r.name, r.f, "grad"_a, "shape"_a);
  function(api, "permute_backward", permute_backward, "grad"_a, "axes"_a);
  function(api, "transpose_backward", transpose_backward, "grad"_a, "a"_a, "b"_a);
  function(api, "narrow_backward", narrow_backward, "grad"_a, "shape"_a, "axis"_a, "start"_a, "step"_a = 1);
  function(
      api, "slice_backward",
      [](const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t start,
         std::optional<std::int64_t> stop,
         std::int64_t step) { return slice_backward(grad, shape, axis, start, stop.value_or(kEnd), step); },
      "grad"_a, "shape"_a, "axis"_a, "start"_a, "stop"_a.none() = nb::none(), "step"_a = 1);
  function(api, "select_backward", select_backward, "grad"_a, "shape"_a, "axis"_a, "index"_a);
  function(api, "split_backward", split_backward, "grads"_a, "axis"_a = 0);
  function(api, "chunk_backward", chunk_backward, "grads"_a, "axis"_a = 0);
  function(api, "cat_backward", cat_backward, "grad"_a, "sizes"_a, "axis"_a = 0);
  function(api, "stack_backward", stack_backward, "grad"_a, "axis"_a = 0);
  function(
      api, "pad_backward",
      [](const Tensor& grad, const Shape& shape, const std::vector<std::int64_t>& pad, const std::string& mode) {
        return pad_backward(grad, shape, pad, pad_mode("pad_backward", mode));
      },
      "grad"_a, "shape"_a, "pad"_a, "mode"_a = "constant");
  function(
      api, "flip_backward",
      [](const Tensor& grad, std::optional<Axes> axes) {
        return axes && axes->empty() ? grad : flip_backward(grad, axes.value_or(Axes()));
      },
      "grad"_a, "axis"_a.none() = nb::none());
  function(api, "roll_backward", roll_backward, "grad"_a, "shifts"_a, "axis"_a.none() = nb::none());
  function(api, "repeat_backward", repeat_backward, "grad"_a, "shape"_a, "repeats"_a);
  function(api, "tril_backward", tril_backward, "grad"_a, "diagonal"_a = 0);
  function(api, "triu_backward", triu_backward, "grad"_a, "diagonal"_a = 0);
  function(api, "diag_backward", diag_backward, "grad"_a, "shape"_a, "diagonal"_a = 0);
  function(api, "diagonal_backward", diagonal_backward, "grad"_a, "shape"_a, "offset"_a = 0, "a"_a = 0, "b"_a = 1);
  function(api, "contiguous_backward", contiguous_backward, "grad"_a);
}

void bind_indices(const Api& api) {
  function(api, "gather_backward", gather_backward, "grad"_a, "shape"_a, "axis"_a, "index"_a);
  function(api, "take_along_backward", take_along_backward, "grad"_a, "shape"_a, "index"_a, "axis"_a);
  for (const Scattering& r : kScattering) function(api, r.name, r.f, "grad"_a, "axis"_a, "index"_a);
  function(api, "index_select_backward", index_select_backward, "grad"_a, "shape"_a, "axis"_a, "index"_a);
  function(api, "embedding_backward", embedding_backward, "grad"_a, "index"_a, "rows"_a,
           "padding_index"_a.none() = nb::none());
  function(api, "sort_backward", sort_backward, "grad"_a, "indices"_a, "axis"_a = -1);
  function(api, "topk_backward", topk_backward, "grad"_a, "shape"_a, "indices"_a, "axis"_a = -1);
}

}  // namespace

void bind_tensor_backward(const Api& api) {
  bind_reductions(api);
  bind_shapes(api);
  bind_indices(api);
  for (const OfTensorsBackward& r : kOfTensorsBackward) function(api, r.name, r.f, "grad"_a, "a"_a, "b"_a);
  function(api, "einsum_backward", einsum_backward, "grad"_a, "equation"_a, "operands"_a);
  function(api, "cholesky_backward", cholesky_backward, "grad"_a, "l"_a);
  function(
      api, "triangular_solve_backward",
      [](const Tensor& grad, const Tensor& a, const Tensor& x, bool upper, bool transposed, bool unit_diagonal) {
        return triangular_solve_backward(grad, a, x,
                                         {.upper = upper, .transposed = transposed, .unit_diagonal = unit_diagonal});
      },
      "grad"_a, "a"_a, "x"_a, nb::kw_only(), "upper"_a = false, "transposed"_a = false, "unit_diagonal"_a = false);
  function(api, "solve_backward", solve_backward, "grad"_a, "a"_a, "x"_a);
  function(api, "inv_backward", inv_backward, "grad"_a, "y"_a);
  function(api, "det_backward", det_backward, "grad"_a, "a"_a);
  function(api, "logdet_backward", logdet_backward, "grad"_a, "a"_a);
}

}  // namespace ebb::python
