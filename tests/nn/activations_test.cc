// SPDX-License-Identifier: MIT
#include "ebb/nn/activations.h"

#include <gtest/gtest.h>

#include "golden_layers.h"

// Each activation layer equals its function, with torch's defaults and with other parameters.
namespace ebb {
namespace {

using namespace nn;

TEST(Activations, AreTheFunctions) {
  const Tensor x = testing::waves({4, 6}, 1, 3);
  const auto same = [&](const char* name, const auto& layer, const Tensor& expected) {
    EXPECT_TRUE(all(layer(x) == expected).template item<bool>()) << name;
  };
  same("Relu", Relu{}, relu(x));
  same("Relu6", Relu6{}, relu6(x));
  same("LeakyRelu", LeakyRelu{}, leaky_relu(x, 0.01));
  same("LeakyRelu of 0.2", LeakyRelu{0.2}, leaky_relu(x, 0.2));
  same("Elu", Elu{}, elu(x));
  same("Elu of 2", Elu{2}, elu(x, 2));
  same("Selu", Selu{}, selu(x));
  same("Celu of 2", Celu{2}, celu(x, 2));
  same("Gelu", Gelu{}, gelu(x));
  same("Gelu of tanh", Gelu{GeluForm::tanh}, gelu(x, GeluForm::tanh));
  same("Silu", Silu{}, silu(x));
  same("Mish", Mish{}, mish(x));
  same("Sigmoid", Sigmoid{}, sigmoid(x));
  same("LogSigmoid", LogSigmoid{}, log_sigmoid(x));
  same("Tanh", Tanh{}, tanh(x));
  same("Softplus of 2", Softplus{2}, softplus(x, 2));
  same("Softsign", Softsign{}, softsign(x));
  same("Hardtanh", Hardtanh{}, hardtanh(x, -1, 1));
  same("Hardtanh of its own", Hardtanh{-2, 0.5}, hardtanh(x, -2, 0.5));
  same("Hardsigmoid", Hardsigmoid{}, hardsigmoid(x));
  same("Hardswish", Hardswish{}, hardswish(x));
  same("Hardshrink", Hardshrink{}, hardshrink(x, 0.5));
  same("Softshrink of 1", Softshrink{1}, softshrink(x, 1));
  same("Tanhshrink", Tanhshrink{}, tanhshrink(x));
  same("Threshold", Threshold{0.5, -3}, threshold(x, 0.5, -3));
  same("Softmax", Softmax{}, softmax(x, 1));
  same("Softmax of columns", Softmax{0}, softmax(x, 0));
  same("LogSoftmax", LogSoftmax{}, log_softmax(x, 1));
  same("Glu", Glu{}, glu(x));
  same("Swiglu of columns", Swiglu{0}, swiglu(x, 0));
  same("Geglu", Geglu{}, geglu(x));
  same("Reglu", Reglu{}, reglu(x));
}

TEST(Activations, PreluLearnsItsSlope) {
  Prelu layer(6, 0.25, DType::f64);
  EXPECT_EQ(parameters(layer).at(0).name, "weight");
  const Tensor x = testing::waves({4, 6}, 1, 3);
  EXPECT_TRUE(allclose(layer(x), where(x > 0.0, x, 0.25 * x)));
  EXPECT_TRUE(allclose(backward(sum(layer(x)))[layer.weight], sum(where(x > 0.0, 0.0, x), 0)));
}

}  // namespace
}  // namespace ebb
