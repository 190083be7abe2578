// SPDX-License-Identifier: MIT
#include "bind.h"
#include "ebb/backward/linear.h"
#include "ebb/ops.h"

// Operations that are formulas of others.
namespace ebb::python {
namespace {

struct OfTwo {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&);
};
constexpr OfTwo kOfTwo[] = {{"logaddexp", logaddexp},
                            {"bitwise_and", bitwise_and},
                            {"bitwise_or", bitwise_or},
                            {"bitwise_xor", bitwise_xor},
                            {"bitwise_left_shift", bitwise_left_shift},
                            {"bitwise_right_shift", bitwise_right_shift},
                            {"kron", kron}};

void bind_numbers(const Api& api) {
  for (const OfTwo& f : kOfTwo) {
    function(api, f.name, f.f, "a"_a, "b"_a);
    method(api, f.name, f.f, "b"_a);
  }
  for (auto [name, f] : {std::pair{"fmod", &fmod}, {"copysign", copysign}}) {
    function(api, name, f, "a"_a, "b"_a);
    method(
        api, name, [f = f](const Tensor& a, TensorOrScalar b) { return f(a, b); }, "b"_a);
  }
  both(api, "signbit", signbit);
  both(api, "erfinv", erfinv);
  both(api, "bitwise_not", bitwise_not);
  both(
      api, "nan_to_num",
      [](const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
        return nan_to_num(x, {.nan = nan, .posinf = posinf, .neginf = neginf});
      },
      "nan"_a = 0.0, "posinf"_a.none() = nb::none(), "neginf"_a.none() = nb::none());
}

void bind_linear(const Api& api) {
  function(
      api, "linear",
      [](const Tensor& x, const Tensor& weight, const Tensor* bias) { return linear(x, weight, or_none(bias)); }, "x"_a,
      "weight"_a, "bias"_a.none() = nb::none());
  function(
      api, "fp8_linear",
      [](const Tensor& x, const Tensor& weight, const Tensor* bias) { return fp8_linear(x, weight, or_none(bias)); },
      "x"_a, "weight"_a, "bias"_a.none() = nb::none());
  function(
      api, "fp8_error_bound",
      [](std::int64_t k, DType result, bool gradient) {
        const Fp8ErrorBound e = fp8_error_bound(k, result, gradient);
        return std::tuple(e.products, e.left, e.right);
      },
      "k"_a, "result"_a = DTypeObject{DType::f32}, "gradient"_a = false);
  function(api, "linear_backward", linear_backward, "grad"_a, "x"_a, "weight"_a);
  for (auto [name, f] : {std::pair{"addmm", &addmm}, {"baddbmm", baddbmm}}) {
    function(api, name, f, "input"_a, "a"_a, "b"_a, nb::kw_only(), "beta"_a = 1.0, "alpha"_a = 1.0);
    method(api, name, f, "a"_a, "b"_a, nb::kw_only(), "beta"_a = 1.0, "alpha"_a = 1.0);
  }
  function(api, "cdist", cdist, "a"_a, "b"_a, "p"_a = 2.0);
  function(api, "pdist", pdist, "x"_a, "p"_a = 2.0);
  function(api, "pairwise_distance", pairwise_distance, "a"_a, "b"_a, "p"_a = 2.0, "eps"_a = 1e-6, "keepdim"_a = false);
  function(api, "cosine_similarity", cosine_similarity, "a"_a, "b"_a, "axis"_a = 1, "eps"_a = 1e-8);
  both(api, "trace", trace);
}

void bind_arrange(const Api& api) {
  function(api, "hstack", hstack, "tensors"_a);
  function(api, "vstack", vstack, "tensors"_a);
  both(
      api, "repeat_interleave",
      [](const Tensor& x, TensorOrScalar repeats, std::optional<std::int64_t> axis) {
        return repeats.is_tensor() ? repeat_interleave(x, repeats.tensor(), axis)
                                   : repeat_interleave(x, repeats.scalar().integer(), axis);
      },
      "repeats"_a, "axis"_a.none() = nb::none());
  function(api, "randperm", randperm, "n"_a);
  function(
      api, "searchsorted",
      [](const Tensor& sorted, TensorOrScalar values, bool right) {
        if (values.is_tensor()) return searchsorted(sorted, values.tensor(), right);
        return reshape(searchsorted(sorted, full({1}, values.scalar(), sorted.dtype()), right), Shape{});
      },
      "sorted_sequence"_a, "values"_a, nb::kw_only(), "right"_a = false);
  both(api, "cummax", cummax, "axis"_a);
  both(api, "cummin", cummin, "axis"_a);
  both(api, "logcumsumexp", logcumsumexp, "axis"_a);
  both(api, "index_fill", index_fill, "axis"_a, "index"_a, "value"_a);
  both(
      api, "index_put",
      [](const Tensor& x, const std::vector<Tensor>& indices, TensorOrScalar values, bool accumulate) {
        return index_put(x, indices, values.is_tensor() ? values.tensor() : full({}, values.scalar(), x.dtype()),
                         accumulate);
      },
      "indices"_a, "values"_a, "accumulate"_a = false);
  both(
      api, "scatter_reduce",
      [](const Tensor& x, std::int64_t axis, const Tensor& index, TensorOrScalar src, const std::string& reduce,
         bool include_self) {
        return scatter_reduce(x, axis, index,
                              src.is_tensor() ? src.tensor() : full(index.shape(), src.scalar(), x.dtype()), reduce,
                              include_self);
      },
      "axis"_a, "index"_a, "src"_a, "reduce"_a, nb::kw_only(), "include_self"_a = true);
  both(api, "nonzero", nonzero);
  both(
      api, "unique",
      [](const Tensor& x, bool /*sorted: always*/, bool return_inverse, bool return_counts) -> nb::object {
        const auto [values, inverse, counts] = unique(x);
        if (!return_inverse && !return_counts) return nb::cast(values);
        if (return_inverse && return_counts) return nb::make_tuple(values, inverse, counts);
        return nb::make_tuple(values, return_inverse ? inverse : counts);
      },
      "sorted"_a = true, "return_inverse"_a = false, "return_counts"_a = false);
}

void bind_decompositions(const Api& api) {
  for (auto [name, f] : {std::pair{"slogdet", &slogdet}, {"eigh", eigh}, {"qr", qr}}) function(api, name, f, "a"_a);
  function(api, "svd", svd, "a"_a);
  for (auto [name, f] : {std::pair{"svdvals", &svdvals}, {"eigvalsh", &eigvalsh}}) function(api, name, f, "a"_a);
  function(api, "pinv", pinv, "a"_a, "rtol"_a.none() = nb::none());
  function(api, "lstsq", lstsq, "a"_a, "b"_a, "rtol"_a.none() = nb::none());
  function(
      api, "_least_squares",
      [](const Tensor& a, const Tensor& b, std::optional<double> rtol) {
        const LeastSquares found = least_squares(a, b, rtol);
        return tuple_of(found.solution, found.residuals, found.rank, found.singular_values);
      },
      "a"_a, "b"_a, "rtol"_a.none() = nb::none());
}

// None, one for all axes, or one for each.
template <class T>
std::vector<T> numbers_in(nb::handle given) {
  if (given.is_none()) return {};
  if (nb::isinstance<nb::sequence>(given)) return nb::cast<std::vector<T>>(given);
  return {nb::cast<T>(given)};
}

void bind_image(const Api& api) {
  const auto options = [](SizePair dilation, SizePair padding, SizePair stride) {
    return UnfoldOptions{.dilation = dilation, .padding = padding, .stride = stride};
  };
  function(
      api, "unfold",
      [options](const Tensor& x, SizePair window, SizePair dilation, SizePair padding, SizePair stride) {
        return unfold(x, window, options(dilation, padding, stride));
      },
      "x"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1);
  function(
      api, "fold",
      [options](const Tensor& x, SizePair output, SizePair window, SizePair dilation, SizePair padding,
                SizePair stride) { return fold(x, output, window, options(dilation, padding, stride)); },
      "x"_a, "output_size"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1);
  function(api, "pixel_shuffle", pixel_shuffle, "x"_a, "upscale_factor"_a);
  function(api, "pixel_unshuffle", pixel_unshuffle, "x"_a, "downscale_factor"_a);
  function(
      api, "interpolate",
      [](const Tensor& x, nb::handle size, nb::handle scale_factor, const std::string& mode,
         std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor, bool antialias) {
        return interpolate(x, {.size = numbers_in<std::int64_t>(size),
                               .scale_factor = numbers_in<double>(scale_factor),
                               .mode = mode,
                               .align_corners = align_corners.value_or(false),
                               .recompute_scale_factor = recompute_scale_factor.value_or(false),
                               .antialias = antialias});
      },
      "x"_a, "size"_a.none() = nb::none(), "scale_factor"_a.none() = nb::none(), "mode"_a = "nearest",
      "align_corners"_a.none() = nb::none(), "recompute_scale_factor"_a.none() = nb::none(), "antialias"_a = false);
  function(
      api, "grid_sample",
      [](const Tensor& x, const Tensor& grid, const std::string& mode, const std::string& padding_mode,
         std::optional<bool> align_corners) {
        return grid_sample(x, grid, {mode, padding_mode, align_corners.value_or(false)});
      },
      "x"_a, "grid"_a, "mode"_a = "bilinear", "padding_mode"_a = "zeros", "align_corners"_a.none() = nb::none());
  function(api, "dropout2d", dropout2d, "x"_a, "p"_a = 0.5, "training"_a = true);
}

// One number for all axes, or three.
SizeTriple triple(const char* op, nb::handle given) {
  std::vector<std::int64_t> sizes;
  if (!integers_from_object(given, sizes) || (sizes.size() != 1 && sizes.size() != 3))
    throw Error(Error::Kind::type, std::string(op) + ": sizes are a number, or one for each of D, H and W");
  return {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
}
std::optional<SizeTriple> stride_of(const char* op, nb::handle given) {
  if (given.is_none()) return {};
  return triple(op, given);
}

template <class F>
void bind_max_pool3d(const Api& api, const char* name, F f) {
  function(
      api, name,
      [name, f](const Tensor& x, nb::handle window, nb::handle stride, nb::handle padding, nb::handle dilation,
                bool ceil_mode) {
        return f(x, triple(name, window),
                 Pool3dOptions{.stride = stride_of(name, stride),
                               .padding = triple(name, padding),
                               .ceil_mode = ceil_mode,
                               .dilation = triple(name, dilation)});
      },
      "x"_a, "kernel_size"_a, "stride"_a.none() = nb::none(), "padding"_a = 0, "dilation"_a = 1, "ceil_mode"_a = false);
}

void bind_volumes(const Api& api) {
  function(
      api, "conv3d",
      [](const Tensor& x, const Tensor& weight, const Tensor* bias, nb::handle stride, nb::handle padding,
         nb::handle dilation, std::int64_t groups) {
        return conv3d(x, weight, or_none(bias),
                      {.stride = triple("conv3d", stride),
                       .padding = triple("conv3d", padding),
                       .dilation = triple("conv3d", dilation),
                       .groups = groups});
      },
      "x"_a, "weight"_a, "bias"_a.none() = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
      "groups"_a = 1);
  function(
      api, "conv_transpose3d",
      [](const Tensor& x, const Tensor& weight, const Tensor* bias, nb::handle stride, nb::handle padding,
         nb::handle output_padding, std::int64_t groups, nb::handle dilation) {
        const char* op = "conv_transpose3d";
        return conv_transpose3d(x, weight, or_none(bias),
                                {.stride = triple(op, stride),
                                 .padding = triple(op, padding),
                                 .output_padding = triple(op, output_padding),
                                 .groups = groups,
                                 .dilation = triple(op, dilation)});
      },
      "x"_a, "weight"_a, "bias"_a.none() = nb::none(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
      "groups"_a = 1, "dilation"_a = 1);
  bind_max_pool3d(api, "max_pool3d", max_pool3d);
  bind_max_pool3d(api, "max_pool3d_with_indices", max_pool3d_with_indices);
  for (auto [name, f] :
       {std::pair{"adaptive_max_pool3d", &adaptive_max_pool3d}, {"adaptive_avg_pool3d", adaptive_avg_pool3d}}) {
    function(
        api, name,
        [name = name, f = f](const Tensor& x, nb::handle output_size) { return f(x, triple(name, output_size)); },
        "x"_a, "output_size"_a);
  }
  function(
      api, "adaptive_max_pool3d_with_indices",
      [](const Tensor& x, nb::handle output_size) {
        return adaptive_max_pool3d_with_indices(x, triple("adaptive_max_pool3d", output_size));
      },
      "x"_a, "output_size"_a);
  function(
      api, "avg_pool3d",
      [](const Tensor& x, nb::handle window, nb::handle stride, nb::handle padding, bool ceil_mode,
         bool count_include_pad) {
        const char* op = "avg_pool3d";
        return avg_pool3d(x, triple(op, window),
                          {.stride = stride_of(op, stride),
                           .padding = triple(op, padding),
                           .ceil_mode = ceil_mode,
                           .count_include_pad = count_include_pad});
      },
      "x"_a, "kernel_size"_a, "stride"_a.none() = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true);
}

}  // namespace

void bind_composed(const Api& api) {
  bind_numbers(api);
  bind_linear(api);
  bind_arrange(api);
  bind_image(api);
  bind_decompositions(api);
  bind_volumes(api);
}

}  // namespace ebb::python
