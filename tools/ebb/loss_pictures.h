// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ebb/losses/registry.h"

// Losses and their gradients over the prediction, as Ebb computes them.
namespace ebb::program {

// The inputs of a loss as its prediction varies along x [n]: one term per element of x.
struct LossPicture {
  std::string_view loss;
  const char* title;
  const char* x_label;
  std::vector<Tensor> (*inputs)(const Tensor& x);
  double from, to;
  LossOptionValues options = {};
};

// Pictures of losses that are functions of one prediction.
std::span<const LossPicture> loss_pictures();

struct LossCurve {
  std::string title, x_label;
  std::vector<double> x, value, gradient;
};

// A picture of any loss: its own, or else its curve as one element of its first input varies.
LossCurve loss_curve(std::string_view loss, const LossOptionValues& options = {});
std::string draw(const LossCurve& curve);  // SVG

}  // namespace ebb::program
