// SPDX-License-Identifier: MIT
// A vision transformer (Dosovitskiy et al., 2021): a picture is a sequence of patches. Without arguments a small one
// learns eight random pictures on the CPU; `vit --device cuda --batch 256 --bf16` trains ViT-B/16, 86.6 million
// parameters, at 224 × 224 pixels and prints images per second and memory.
//
//     vit [--device cuda] [--bf16] [--batch N] [--steps N] [--side N] [--patch N] [--width N] [--layers N] [--heads N]
//         [--classes N] [--time]
#include "training_program.h"

using namespace ebb;

namespace {

struct VisionTransformer {
  nn::Conv2d patches;
  Tensor class_token, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  VisionTransformer(std::int64_t side, std::int64_t patch, std::int64_t width, std::int64_t layers, std::int64_t heads,
                    std::int64_t classes)
      : patches(3, width, patch, {.stride = patch}),
        class_token(variable(zeros({1, 1, width}))),
        positions(variable(nn::normal({1, 1 + (side / patch) * (side / patch), width}, 0, 0.02))),
        norm(width, {.eps = 1e-6}),
        head(width, classes) {
    for (std::int64_t k = 0; k < layers; ++k)
      blocks.emplace_back(width, heads, nn::TransformerBlockOptions{.eps = 1e-6});
  }
  Tensor operator()(const Tensor& pictures) const {
    const Tensor seen = transpose(flatten(patches(pictures), 2), 1, 2);  // [batch, patches, width]
    const Tensor token = broadcast_to(class_token, {seen.size(0), 1, seen.size(2)});
    Tensor h = cat({token, seen}, 1) + positions;
    for (const nn::TransformerBlock& block : blocks) h = block(h);
    return head(norm(h.slice(1, 0, 1)).reshape({seen.size(0), seen.size(2)}));
  }
  template <class V>
  void visit(V&& v) {
    v("patches", patches);
    v("class_token", class_token);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
};

}  // namespace

int main(int count, char** arguments) {
  const training_program::Options o(count, arguments);
  manual_seed(1);
  const std::int64_t side = o.number("--side", 224, 32), classes = o.number("--classes", 1000, 10);
  VisionTransformer net(side, o.number("--patch", 16, 8), o.number("--width", 768, 32), o.number("--layers", 12, 2),
                        o.number("--heads", 12, 4), classes);
  AdamW adamw({.lr = 1e-3, .weight_decay = 0.05, .decays = decay_matrices});
  return training_program::train_pictures(net, adamw, o, side, classes, o.number("--batch", 256, 8),
                                          o.number("--steps", 40, 12));
}
