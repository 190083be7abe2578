// SPDX-License-Identifier: MIT
#include "worker/cases.h"

// Products of the shapes that training makes, and a convolution.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;

struct Product {
  std::int64_t m, k, n;
  bool transposed;  // the second factor lies as [n, k]
};

std::string brackets(std::int64_t rows, std::int64_t cols) {
  return "[" + std::to_string(rows) + "," + std::to_string(cols) + "]";
}

Case product(const Product& p) {
  Case c;
  c.suite = "products";
  c.name = brackets(p.m, p.k) + "x" + (p.transposed ? brackets(p.n, p.k) + "^T" : brackets(p.k, p.n));
  c.inputs = [=](Size s) {
    const Product z = s == Size::tiny ? Product{5, 7, 9, p.transposed} : p;
    const Shape second = p.transposed ? Shape{z.n, z.k} : Shape{z.k, z.n};
    return Inputs{{"a", Kind::normal, {z.m, z.k}}, {"b", Kind::normal, second}};
  };
  c.compute = [=](const Tensors& in) { return Tensors{matmul(in[0], p.transposed ? transpose(in[1], 0, 1) : in[1])}; };
  c.gradients_only = true;
  c.sizes = {Size::large};
  return c;
}

// Forward and both gradients; the mean of squares costs nothing beside them.
Case convolution() {
  Case c;
  c.suite = "products";
  c.name = "convolution [64,64,32,32] by [64,64,3,3]";
  c.inputs = [](Size s) {
    const std::int64_t pictures = s == Size::tiny ? 2 : 64, channels = s == Size::tiny ? 3 : 64,
                       side = s == Size::tiny ? 6 : 32;
    return Inputs{{"x", Kind::normal, {pictures, channels, side, side}, true},
                  {"w", Kind::fan_in, {channels, channels, 3, 3}, true}};
  };
  c.loss = [](const Tensors& in) { return mean(square(conv2d(in[0], in[1], {}, {.padding = 1}))); };
  c.gradients_only = true;
  c.sizes = {Size::large};
  return c;
}

}  // namespace

std::vector<Case> product_cases() {
  std::vector<Case> cases;
  for (const Product& p : {Product{64, 64, 64, false},
                           {256, 256, 256, false},
                           {512, 512, 512, false},
                           {1024, 1024, 1024, false},
                           {128, 784, 1024, false},
                           {128, 784, 1024, true},
                           {1024, 256, 32000, false},
                           {2048, 512, 32000, true}})
    cases.push_back(product(p));
  cases.push_back(convolution());
  return cases;
}

}  // namespace bench
