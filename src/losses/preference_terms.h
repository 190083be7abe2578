// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/preference.h"
#include "losses/reduction.h"

// Shared by preference losses and their forms with an LM head.
namespace ebb {

Tensor one_number(const char* op, const Tensor& kl);  // without axes

void check_grpo(const char* op, const Shape& policy, const Tensor& advantages, const GrpoOptions& o);
// Advantages repeat along the policy's axes; the terms are not rounded.
Tensor grpo_terms(const Precision& p, const Tensor& policy, const Tensor& advantages, const GrpoOptions& o);
Tensor reduce_tokens(const char* op, const Tensor& terms, const GrpoOptions& o);

}  // namespace ebb
