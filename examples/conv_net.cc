// SPDX-License-Identifier: MIT
// A convolutional network with batch norms reads digits. In training, each batch is normalized by its own statistics
// and the running ones are updated; in evaluation the running ones are used, so that a picture's result does not depend
// on the others in its batch. The trained network is saved and loaded by name. conv_net_by_hand.cc does the same
// without autograd.
#include "conv_net.h"

using namespace ebb;

int main() {
  return conv_net::train([](conv_net::ConvNet& net, const Tensor& images, const Tensor& labels) {
    const Tensor loss = cross_entropy(net(images), labels);
    return std::pair{loss, backward(loss)};
  });
}
