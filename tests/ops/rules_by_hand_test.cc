// SPDX-License-Identifier: MIT
#include "ebb/autograd.h"
#include "ebb/backward.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "expect_error.h"
#include "ops/values.h"

// NAME_backward(grad, ...) matches the backward pass, also where operands were broadcast.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;
struct RuleCase {
  const char* name;
  Tensors inputs;  // all of them are differentiated
  FunctionOfMany f;
  std::function<Tensors(const Tensor& grad, const Tensors&)> by_hand;
};

template <class G>
Tensors list(const G& g) {
  if constexpr (std::is_same_v<G, Tensor>) {
    return {g};
  } else if constexpr (requires { g.input; }) {
    return {g.input, g.weight, g.bias};
  } else if constexpr (requires { g.second; }) {
    return {g.first, g.second};
  } else {
    return {std::get<0>(g), std::get<1>(g), std::get<2>(g)};
  }
}

void expect_the_rules(const std::vector<RuleCase>& cases) {
  for (const RuleCase& k : cases) {
    SCOPED_TRACE(k.name);
    Tensors v;
    for (const Tensor& in : k.inputs) v.push_back(variable(in));
    const Tensor y = k.f(v), grad = randn(y.shape(), y.dtype()).eval();
    const Gradients g = backward(y, {.grad = grad});
    const Tensors by_hand = k.by_hand(grad, k.inputs);
    ASSERT_GE(by_hand.size(), v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      EXPECT_EQ(by_hand[i].shape(), v[i].shape()) << "input " << i;
      expect_values(by_hand[i], (g.contains(v[i]) ? g[v[i]] : zeros(v[i].shape())).to_vector());
    }
  }
}

Tensor drawn_numbers(const Shape& shape) { return randn(shape, DType::f64).eval(); }

// f(v...) and f_backward(grad, v...) of one, two and three operands.
#define ONE(name, ...)                                                                                                \
  RuleCase {                                                                                                          \
#name, {__VA_ARGS__ },                                                                                            \
            [](const Tensors& v) { return name(v[0]); },                                                              \
                                                      [](const Tensor& g,                                             \
                                                         const Tensors& v) { return list(name##_backward(g, v[0])); } \
  }
#define TWO(name, ...)                                                                                                 \
  RuleCase {                                                                                                           \
#name, {__VA_ARGS__ },                                                                                             \
            [](const Tensors& v) { return name(v[0], v[1]); },                                                         \
                                                            [](const Tensor& g,                                        \
                                                               const Tensors&                                          \
                                                                   v) { return list(name##_backward(g, v[0], v[1])); } \
  }
#define THREE(name, ...)                                                                                             \
  RuleCase {                                                                                                         \
#name,                                                                                                           \
        {__VA_ARGS__ },                                                                                              \
         [](const Tensors&                                                                                           \
                v) { return name(v[0], v[1], v[2]); },                                                               \
                                                    [](const Tensor& g,                                              \
                                                       const Tensors&                                                \
                                                           v) { return list(name##_backward(g, v[0], v[1], v[2])); } \
  }
#define ZERO_OR_PASSED(name, ...)                                                                                \
  RuleCase {                                                                                                     \
#name, {__VA_ARGS__ },                                                                                       \
            [](const Tensors& v) { return name(v[0]); }, [](const Tensor& g,                                     \
                                                            const Tensors&) { return list(name##_backward(g)); } \
  }

TEST(RulesByHand, OfElementsAreThoseOfTheBackwardPass) {
  manual_seed(11);
  const Tensor a = drawn_numbers({3, 4}), b = drawn_numbers({4}), c = drawn_numbers({3, 1}),
               p = exp(drawn_numbers({3, 4})).eval();
  const Tensor mask = (drawn_numbers({3, 4}) > 0).eval();
  expect_the_rules({
      TWO(sub, a, b),
      TWO(minimum, a, c),
      TWO(floor_divide, a, p),
      TWO(xlogy, b, p),
      THREE(fma, a, b, c),
      THREE(affine, a, c, b),
      THREE(lerp, a, b, c),
      ZERO_OR_PASSED(sign, a),
      ZERO_OR_PASSED(ceil, a),
      ZERO_OR_PASSED(round, a),
      ZERO_OR_PASSED(trunc, a),
      ZERO_OR_PASSED(frac, a),
      ONE(glu, a),
      ONE(swiglu, a),
      ONE(geglu, a),
      ONE(reglu, a),
      {"where",
       {a, b},
       [=](const Tensors& v) { return where(mask, v[0], v[1]); },
       [=](const Tensor& g, const Tensors& v) { return list(where_backward(g, mask, v[0], v[1])); }},
      {"masked_fill",
       {b},
       [=](const Tensors& v) {
         return masked_fill(expand(v[0], {3, 4}), mask, 2.0);
       },
       [=](const Tensor& g, const Tensors& v) { return list(masked_fill_backward(g, mask, v[0])); }},
  });
}

// Tensor bounds have gradients of their own.
TEST(RulesByHand, OfShapesAreThoseOfTheBackwardPass) {
  manual_seed(13);
  const Tensor a = drawn_numbers({2, 3, 4}), b = drawn_numbers({2, 5, 4}), row = drawn_numbers({1, 4});
  expect_the_rules({
      {"reshape",
       {a},
       [](auto& v) {
         return reshape(v[0], {6, 4});
       },
       [](auto& g, auto& v) { return Tensors{reshape_backward(g, v[0].shape())}; }},
      {"flatten",
       {a},
       [](auto& v) { return flatten(v[0]); },
       [](auto& g, auto& v) { return Tensors{flatten_backward(g, v[0].shape())}; }},
      {"squeeze",
       {row},
       [](auto& v) { return squeeze(v[0], 0); },
       [](auto& g, auto& v) { return Tensors{squeeze_backward(g, v[0].shape())}; }},
      {"unsqueeze",
       {a},
       [](auto& v) { return unsqueeze(v[0], 1); },
       [](auto& g, auto& v) { return Tensors{unsqueeze_backward(g, v[0].shape())}; }},
      {"contiguous",
       {a},
       [](auto& v) { return contiguous(v[0]); },
       [](auto& g, auto&) { return Tensors{contiguous_backward(g)}; }},
      {"transpose",
       {a},
       [](auto& v) { return transpose(v[0], 0, 2); },
       [](auto& g, auto&) { return Tensors{transpose_backward(g, 0, 2)}; }},
      {"expand",
       {row},
       [](auto& v) {
         return expand(v[0], {3, 4});
       },
       [](auto& g, auto& v) { return Tensors{expand_backward(g, v[0].shape())}; }},
      {"cat",
       {a, b},
       [](auto& v) {
         return cat({v[0], v[1]}, 1);
       },
       [](auto& g, auto&) {
         return Tensors(cat_backward(g, {3, 5}, 1));
       }},
      {"stack",
       {a, exp(a).eval()},
       [](auto& v) {
         return stack({v[0], v[1]}, 1);
       },
       [](auto& g, auto&) { return Tensors(stack_backward(g, 1)); }},
      {"split",
       {b},
       [](auto& v) {
         const Tensors parts = split(v[0], {2, 3}, 1);
         return cat({parts[1], parts[0]}, 1);
       },
       [](auto& g, auto&) {
         return Tensors{split_backward({narrow(g, 1, 3, 2), narrow(g, 1, 0, 3)}, 1)};
       }},
      {"chunk",
       {a},
       [](auto& v) {
         const Tensors parts = chunk(v[0], 2, 2);
         return cat({parts[1], parts[0]}, 2);
       },
       [](auto& g, auto&) {
         return Tensors{chunk_backward({narrow(g, 2, 2, 2), narrow(g, 2, 0, 2)}, 2)};
       }},
      {"flip",
       {a},
       [](auto& v) {
         return flip(v[0], {0, 2});
       },
       [](auto& g, auto&) {
         return Tensors{flip_backward(g, {0, 2})};
       }},
      {"triu", {a}, [](auto& v) { return triu(v[0], 1); }, [](auto& g, auto&) { return Tensors{triu_backward(g, 1)}; }},
  });
}

TEST(RulesByHand, OfClampReachTheBounds) {
  const Tensor x = variable(row({-3, 0, 3, 5})), low = variable(row({-1, -1, 4, 2})),
               high = variable(row({1, 1, 6, 4}));
  const Gradients g = backward(sum(clamp(x, low, high) * row({1, 2, 3, 4})));
  expect_values(g[x], {0, 2, 0, 0});
  expect_values(g[low], {1, 0, 3, 0});
  expect_values(g[high], {0, 0, 0, 4});
  const Tensor lowest = variable(row({0.5})), highest = variable(row({0.5}));
  expect_values(backward(sum(clamp(x, lowest)))[lowest], {2});
  expect_values(backward(sum(clamp(x, {}, highest)))[highest], {2});
}

TEST(RulesByHand, OfChanceTakeWhatWasDrawn) {
  const Tensor g = row({1, 2, 3}), y = softmax(row({0.3, -1, 2}), -1).eval();
  expect_values(gumbel_softmax_backward(g, y, {.tau = 0.5}), (softmax_backward(g, y) / 0.5).to_vector());
  const Tensor kept = row({1, 0, 1}) > 0;
  expect_values(dropout_backward(g, kept, 0.75), {4, 0, 12});
  expect_values(dropout_backward(g, kept, 1), {0, 0, 0});
  EXPECT_THROW_MESSAGE(dropout_backward(g, kept, 1.5), "dropout_backward: p must be a probability in [0, 1], got 1.5");
}

TEST(RulesByHand, OfWindowsAreThoseOfTheBackwardPass) {
  manual_seed(12);
  const Tensor x = drawn_numbers({2, 3, 9}), w = drawn_numbers({4, 3, 3}), up = drawn_numbers({3, 2, 3}),
               bias = drawn_numbers({4});
  const Tensor image = drawn_numbers({2, 3, 5, 4}), filters = drawn_numbers({3, 2, 2, 3}), two = drawn_numbers({2});
  expect_the_rules({
      {"conv1d",
       {x, w, bias},
       [](const Tensors& v) { return conv1d(v[0], v[1], v[2], {.stride = 2, .padding = 1}); },
       [](const Tensor& g, const Tensors& v) {
         return list(conv1d_backward(g, v[0], v[1], {.stride = 2, .padding = 1}));
       }},
      {"conv_transpose1d",
       {x, up, two},
       [](const Tensors& v) { return conv_transpose1d(v[0], v[1], v[2], {.stride = 2}); },
       [](const Tensor& g, const Tensors& v) { return list(conv_transpose1d_backward(g, v[0], v[1], {.stride = 2})); }},
      {"conv_transpose2d",
       {image, filters, two},
       [](const Tensors& v) { return conv_transpose2d(v[0], v[1], v[2], {.padding = 1}); },
       [](const Tensor& g, const Tensors& v) {
         return list(conv_transpose2d_backward(g, v[0], v[1], {.padding = 1}));
       }},
      {"avg_pool1d",
       {x},
       [](const Tensors& v) { return avg_pool1d(v[0], 3, {.stride = 2}); },
       [](const Tensor& g, const Tensors& v) { return list(avg_pool1d_backward(g, v[0].shape(), 3, {.stride = 2})); }},
      {"max_pool1d",
       {x},
       [](const Tensors& v) { return max_pool1d(v[0], 3); },
       [](const Tensor& g, const Tensors& v) {
         return list(max_pool1d_backward(g, v[0].shape(), max_pool1d_with_indices(v[0], 3).second));
       }},
      {"adaptive_avg_pool1d",
       {x},
       [](const Tensors& v) { return adaptive_avg_pool1d(v[0], 4); },
       [](const Tensor& g, const Tensors& v) { return list(adaptive_avg_pool1d_backward(g, v[0].shape())); }},
      {"global_avg_pool",
       {image},
       [](const Tensors& v) { return global_avg_pool(v[0]); },
       [](const Tensor& g, const Tensors& v) { return list(global_avg_pool_backward(g, v[0].shape())); }},
      {"global_max_pool",
       {image},
       [](const Tensors& v) { return global_max_pool(v[0]); },
       [](const Tensor& g, const Tensors& v) { return list(global_max_pool_backward(g, v[0])); }},
  });
}

// A filter twice as wide, for a picture half as large: its weights are 3, 3 and 1 sevenths at the edge.
TEST(Interpolate, WithAntialiasingTakesMeansUnderAWiderFilter) {
  const Tensor x = reshape(row({7, 0, 0, 14, 7, 0, 0, 14}), {1, 1, 2, 4});
  const Tensor v = variable(x), y = interpolate(v, {.size = {2, 2}, .mode = "bilinear", .antialias = true});
  expect_values(y, {3, 6, 3, 6});
  const double a = 3.0 / 7, b = 4.0 / 7;
  expect_values(backward(sum(y))[v], {a, b, b, a, a, b, b, a});
  // Weights sum to one, and a line stays one away from the edges.
  for (const char* mode : {"bilinear", "bicubic"}) {
    const InterpolateOptions smaller{.size = {3, 5}, .mode = mode, .antialias = true};
    expect_values(interpolate(full({1, 2, 7, 13}, 2.5, DType::f64), smaller), std::vector<double>(30, 2.5));
    const Tensor line = expand(reshape(arange(40), {1, 1, 1, 40}), {1, 1, 4, 40});
    const Tensor shorter = interpolate(cast(line, DType::f64), {.size = {4, 10}, .mode = mode, .antialias = true});
    expect_values(narrow(narrow(shorter, 3, 3, 3), 2, 0, 1), {13.5, 17.5, 21.5});
  }
}

}  // namespace
}  // namespace ebb
