#pragma once
#include <vector>

#include "ebb/losses/registry.h"

// The registry's entries by family; loss_registry() is all of them, in this order.
namespace ebb {

std::vector<LossInfo> regression_entries();
std::vector<LossInfo> classification_entries();
std::vector<LossInfo> binary_entries();
std::vector<LossInfo> margin_entries();
std::vector<LossInfo> distance_entries();
std::vector<LossInfo> probabilistic_entries();
std::vector<LossInfo> divergence_entries();
std::vector<LossInfo> robust_entries();
std::vector<LossInfo> ranking_entries();
std::vector<LossInfo> segmentation_entries();
std::vector<LossInfo> contrastive_entries();
std::vector<LossInfo> alignment_entries();
std::vector<LossInfo> preference_entries();
std::vector<LossInfo> linear_entries();

inline constexpr LossOption kReductionOption{"reduction", "mean", "none, mean or sum of the terms"};

}  // namespace ebb
