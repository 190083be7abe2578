// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/preference.h"
#include "losses/describe.h"
#include "losses/preference_terms.h"

// Descriptions of preference losses' options, for the losses themselves and for their forms with an LM head.
namespace ebb {

template <class V>
void each_option(V& v, DpoOptions& o) {
  v("beta", o.beta, "how strongly the reference holds the policy");
  v("label_smoothing", o.label_smoothing, "the share of labels believed to be swapped");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, IpoOptions& o) {
  v("beta", o.beta, "how strongly the reference holds the policy");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, KtoOptions& o) {
  v("beta", o.beta, "how strongly the reference holds the policy");
  v("desirable_weight", o.desirable_weight, "what a desirable answer counts");
  v("undesirable_weight", o.undesirable_weight, "what an undesirable answer counts");
  v("kl", o.kl, HasGradient::no);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, OrpoOptions& o) {
  v("beta", o.beta, "the weight of the odds");
  v("likelihood", o.likelihood, "adds the term −chosen");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SimpoOptions& o) {
  v("beta", o.beta, "the scale of the difference");
  v("gamma", o.gamma, "the margin");
  v("label_smoothing", o.label_smoothing, "the share of labels believed to be swapped");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, CpoOptions& o) {
  v("beta", o.beta, "the scale of the difference");
  v("alpha", o.alpha, "the weight of the likelihood of the chosen answer");
  v("label_smoothing", o.label_smoothing, "the share of labels believed to be swapped");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, GrpoOptions& o) {
  v.word("loss_type", o.loss_type, grpo_loss_type_from_name,
         "grpo, bnpo, dr_grpo, dapo, cispo, gspo, sapo or luspo, as TRL names them");
  v("clip_low", o.clip_low, "how far the ratio may fall below 1");
  v("clip_high", o.clip_high, "how far the ratio may rise above 1");
  v("beta", o.beta, "the weight of the divergence from the reference");
  v("old", o.old);
  v("reference", o.reference);
  v("mask", o.mask, HasGradient::no);
  v("by_token", o.by_token, "the mean is over all tokens");
  v("delta", o.delta, "> 0: the ratio that is not clipped is at most that");
  v("sapo_temperature_pos", o.sapo_temperature_pos, "of sapo's gate where the advantage is positive");
  v("sapo_temperature_neg", o.sapo_temperature_neg, "of sapo's gate elsewhere");
  v("max_completion_length", o.max_completion_length, "what dr_grpo takes for the length of answers; 0: T");
  v("num_items_in_batch", o.num_items_in_batch, "the tokens that dapo and cispo divide by; 0: those that count here");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LinearLogProbOptions& o) {
  v("bias", o.bias);
  v("ignore_index", o.ignore_index, kIgnored);
  v("softcap", o.softcap, kSoftcapped);
  v("temperature", o.temperature, "divides the logits, after the softcap");
  v("chunk", o.chunk, "rows whose logits exist at a time; 0: chosen");
}

}  // namespace ebb
