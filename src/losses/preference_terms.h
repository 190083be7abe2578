// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "ebb/losses/preference.h"
#include "losses/reduction.h"

// Shared by preference losses and their forms with an LM head.
namespace ebb {

Tensor one_number(const char* op, const Tensor& kl);  // without axes

std::string_view name_of(GrpoLossType type);
GrpoLossType grpo_loss_type_from_name(std::string_view name);
bool has_ratio_of_answer(const GrpoOptions& o);  // instead of one per token
Tensor by_answer(const Tensor& advantages);      // [B, 1] from [B]; [B, T] unchanged

void check_grpo(const char* op, const Shape& policy, const Tensor& advantages, const GrpoOptions& o);
// Advantages repeat along the policy's axes; the terms are not rounded.
Tensor grpo_terms(const Precision& p, const Tensor& policy, const Tensor& advantages, const GrpoOptions& o);
Tensor reduce_tokens(const char* op, const Tensor& terms, const GrpoOptions& o);

}  // namespace ebb
