// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "ebb/losses/margin.h"

// Losses of vectors (the last axis) by distance or by angle.
namespace ebb {

// max(0, margin + ‖a − p + eps‖ − ‖a − n + eps‖); swap takes min(‖a − n + eps‖, ‖p − n + eps‖) for the last
struct TripletOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
struct TripletGradients {
  Tensor anchor, positive, negative;
};
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& options = {});
TripletGradients triplet_margin_loss_backward(const Tensor& grad, const Tensor& anchor, const Tensor& positive,
                                              const Tensor& negative, const TripletOptions& options = {});

// The same with a custom distance; the default is ‖x − y + 1e-6‖.
struct TripletDistanceOptions {
  std::function<Tensor(const Tensor&, const Tensor&)> distance_function = {};
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletDistanceOptions& options = {});
TripletGradients triplet_margin_with_distance_loss_backward(const Tensor& grad, const Tensor& anchor,
                                                            const Tensor& positive, const Tensor& negative,
                                                            const TripletDistanceOptions& options = {});

struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
// y = 1: 1 − c;  y = −1: max(0, c − margin),  c = a·b / sqrt((a·a + 1e-12)·(b·b + 1e-12)); one y per vector
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingOptions& options = {});
PairGradients cosine_embedding_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                             const Tensor& target, const CosineEmbeddingOptions& options = {});

// 1 − a·b / (‖a‖·‖b‖); a zero vector gives 1 and gradient 0
struct CosineSimilarityOptions {
  int axis = -1;
  Reduction reduction = Reduction::mean;
};
Tensor cosine_similarity_loss(const Tensor& input1, const Tensor& input2, const CosineSimilarityOptions& options = {});
PairGradients cosine_similarity_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                              const CosineSimilarityOptions& options = {});

}  // namespace ebb
