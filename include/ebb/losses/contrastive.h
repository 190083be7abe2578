// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// Losses for learning embeddings: rows are samples, [N, D]. `*_backward` returns one cotangent per tensor argument, in
// order, undefined where there is none.
namespace ebb {

// Row i of the keys belongs to row i of the queries, the others (or `negatives` [M, D], if given) do not:
//   −log e^(q_i·k_i/τ) / Σ_j e^(q_i·k_j/τ), rows of length 1 unless normalize is off
struct InfoNceOptions {
  Tensor negatives = {};
  double temperature = 0.1;
  bool normalize = true;
  Reduction reduction = Reduction::mean;
};
Tensor info_nce(const Tensor& query, const Tensor& key, const InfoNceOptions& options = {});
std::vector<Tensor> info_nce_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                      const InfoNceOptions& options = {});  // of query, key, negatives

// SigLIP: each pair of the batch is a yes or no of its own, row i with row i or with another:
//   Σ_j softplus(−y_ij·(scale·a_i·b_j + bias)), y_ij = 1 for i = j, otherwise −1; rows of length 1 unless normalize is
//   off
struct SiglipOptions {
  Tensor scale = {};  // one number, learned; default: 10
  Tensor bias = {};   // one number, learned; default: −10
  bool normalize = true;
  Reduction reduction = Reduction::mean;  // of the rows' sums
};
Tensor siglip_loss(const Tensor& first, const Tensor& second, const SiglipOptions& options = {});
std::vector<Tensor> siglip_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                         const SiglipOptions& options = {});  // of first, second, scale, bias

// SimCLR: two views of every sample; each of the 2N rows has to identify its other view among the 2N − 1 others.
struct NtXentOptions {
  double temperature = 0.5;
  Reduction reduction = Reduction::mean;
};
Tensor nt_xent(const Tensor& first, const Tensor& second, const NtXentOptions& options = {});
std::vector<Tensor> nt_xent_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                     const NtXentOptions& options = {});

// Supervised contrastive: −mean over the rows with the same label of log e^(z_i·z_p/τ) / Σ_{j≠i} e^(z_i·z_j/τ). Rows
// whose label is unique do not count.
struct SupConOptions {
  double temperature = 0.07;
  Reduction reduction = Reduction::mean;
};
Tensor supcon_loss(const Tensor& features, const Tensor& labels, const SupConOptions& options = {});
Tensor supcon_loss_backward(const Tensor& grad, const Tensor& features, const Tensor& labels,
                            const SupConOptions& options = {});

// Cross-entropy of scaled cosines cos θ between embeddings [N, D] and class weights [C, D]; the target's is made
// harder: ArcFace takes cos(θ + margin) (cos θ − margin·sin margin where θ + margin passes π), CosFace cos θ − margin.
struct ArcFaceOptions {
  double margin = 0.5;
  double scale = 64;
  Reduction reduction = Reduction::mean;
};
Tensor arcface_loss(const Tensor& embeddings, const Tensor& weight, const Tensor& target,
                    const ArcFaceOptions& options = {});
std::vector<Tensor> arcface_loss_backward(const Tensor& grad, const Tensor& embeddings, const Tensor& weight,
                                          const Tensor& target, const ArcFaceOptions& options = {});
struct CosFaceOptions {
  double margin = 0.35;
  double scale = 64;
  Reduction reduction = Reduction::mean;
};
Tensor cosface_loss(const Tensor& embeddings, const Tensor& weight, const Tensor& target,
                    const CosFaceOptions& options = {});
std::vector<Tensor> cosface_loss_backward(const Tensor& grad, const Tensor& embeddings, const Tensor& weight,
                                          const Tensor& target, const CosFaceOptions& options = {});

// Σ (1 − c_ii)² + lambda·Σ_{i≠j} c_ij², c the correlation of the features of two views over the batch
struct BarlowTwinsOptions {
  double lambda = 5e-3;
  double eps = 1e-5;  // added to the variances
};
Tensor barlow_twins_loss(const Tensor& first, const Tensor& second, const BarlowTwinsOptions& options = {});
std::vector<Tensor> barlow_twins_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                               const BarlowTwinsOptions& options = {});

// invariance·mse + variance·mean max(0, 1 − std) / 2 of both + covariance·Σ_{i≠j} cov_ij² / D of both
struct VicRegOptions {
  double invariance = 25;
  double variance = 25;
  double covariance = 1;
  double eps = 1e-4;  // added to the variance under the square root
};
Tensor vicreg_loss(const Tensor& first, const Tensor& second, const VicRegOptions& options = {});
std::vector<Tensor> vicreg_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                         const VicRegOptions& options = {});

}  // namespace ebb
