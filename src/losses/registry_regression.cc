#include "ebb/losses/distance.h"
#include "ebb/losses/probabilistic.h"
#include "ebb/losses/regression.h"
#include "losses/registry_entries.h"

// Losses of numbers, distances and likelihoods as the registry describes them.
namespace ebb {
namespace {

const std::vector<LossInput> kInputTarget{{"input"}, {"target"}};
const std::vector<LossInput> kInputTargetWeight{{"input"}, {"target"}, {"weight", true, true}};
const std::vector<LossInput> kTriplet{{"anchor"}, {"positive"}, {"negative"}};

using A = const LossArguments&;

}  // namespace

std::vector<LossInfo> regression_entries() {
  return {
      {"mse_loss",
       "regression",
       "(x − t)²",
       kInputTargetWeight,
       {kReductionOption},
       [](A a) { return mse_loss(a.input(0), a.input(1), {.weight = a.input(2), .reduction = a.reduction()}); }},
      {"l1_loss",
       "regression",
       "|x − t|",
       kInputTargetWeight,
       {kReductionOption},
       [](A a) { return l1_loss(a.input(0), a.input(1), {.weight = a.input(2), .reduction = a.reduction()}); }},
      {"smooth_l1_loss",
       "regression",
       "|d| < β: d²/(2β), else |d| − β/2;  d = x − t",
       kInputTarget,
       {{"beta", "1", "where the parabola becomes a line; 0 is l1_loss"}, kReductionOption},
       [](A a) {
         return smooth_l1_loss(a.input(0), a.input(1), {.beta = a.number("beta", 1), .reduction = a.reduction()});
       }},
      {"huber_loss",
       "regression",
       "|d| ≤ δ: d²/2, else δ·(|d| − δ/2);  d = x − t",
       kInputTargetWeight,
       {{"delta", "1", "where the parabola becomes a line"}, kReductionOption},
       [](A a) {
         return huber_loss(a.input(0), a.input(1),
                           {.delta = a.number("delta", 1), .weight = a.input(2), .reduction = a.reduction()});
       }},
  };
}

std::vector<LossInfo> distance_entries() {
  return {
      {"triplet_margin_loss",
       "distance",
       "max(0, m + ‖a − p + ε‖ − ‖a − n + ε‖)",
       kTriplet,
       {{"margin", "1", "by how much the negative should be farther"},
        {"p", "2", "of the norm"},
        {"eps", "1e-6", "added to every difference"},
        {"swap", "0", "1: the negative's distance is the smaller of those to anchor and positive"},
        kReductionOption},
       [](A a) {
         return triplet_margin_loss(a.input(0), a.input(1), a.input(2),
                                    {.margin = a.number("margin", 1),
                                     .p = a.number("p", 2),
                                     .eps = a.number("eps", 1e-6),
                                     .swap = a.flag("swap", false),
                                     .reduction = a.reduction()});
       }},
      {"triplet_margin_with_distance_loss",
       "distance",
       "max(0, m + d(a, p) − d(a, n))",
       kTriplet,
       {{"margin", "1", "by how much the negative should be farther"},
        {"swap", "0", "1: the negative's distance is the smaller of those to anchor and positive"},
        kReductionOption},
       [](A a) {
         return triplet_margin_with_distance_loss(
             a.input(0), a.input(1), a.input(2),
             {.margin = a.number("margin", 1), .swap = a.flag("swap", false), .reduction = a.reduction()});
       }},
      {"cosine_embedding_loss",
       "distance",
       "y = 1: 1 − c;  y = −1: max(0, c − m);  c = a·b/√((a² + ε)(b² + ε))",
       {{"input1"}, {"input2"}, {"target", false}},
       {{"margin", "0", "the cosine that pairs which do not belong together may have"}, kReductionOption},
       [](A a) {
         return cosine_embedding_loss(a.input(0), a.input(1), a.input(2),
                                      {.margin = a.number("margin", 0), .reduction = a.reduction()});
       }},
      {"cosine_similarity_loss",
       "distance",
       "1 − a·b/(‖a‖·‖b‖)",
       {{"input1"}, {"input2"}},
       {{"axis", "-1", "along which the vectors lie"}, kReductionOption},
       [](A a) {
         return cosine_similarity_loss(a.input(0), a.input(1),
                                       {.axis = static_cast<int>(a.integer("axis", -1)), .reduction = a.reduction()});
       }},
  };
}

std::vector<LossInfo> probabilistic_entries() {
  return {
      {"kl_div",
       "probabilistic",
       "t·(log t − x), or e^t·(t − x) with log_target",
       kInputTarget,
       {{"log_target", "0", "1: the target holds log-probabilities"},
        {"reduction", "mean", "none, mean, sum or batchmean of the terms"}},
       [](A a) {
         return kl_div(a.input(0), a.input(1), {.log_target = a.flag("log_target", false), .reduction = a.reduction()});
       }},
      {"kl_divergence",
       "probabilistic",
       "Σ p·log(p/q)",
       {{"p"}, {"q"}},
       {{"epsilon", "0", "q is kept at or above it"},
        {"axis", "-1", "along which the distributions lie"},
        {"reduction", "mean", "none, mean, sum or batchmean of the terms"}},
       [](A a) {
         return kl_divergence(a.input(0), a.input(1),
                              {.epsilon = a.number("epsilon", 0),
                               .axis = static_cast<int>(a.integer("axis", -1)),
                               .reduction = a.reduction()});
       }},
      {"poisson_nll_loss",
       "probabilistic",
       "e^x − t·x, or x − t·log(x + ε) without log_input",
       kInputTarget,
       {{"log_input", "1", "0: the input is the rate itself"},
        {"full", "0", "1: adds Stirling's t·log t − t + ½·log(2πt) where t > 1"},
        {"eps", "1e-8", "keeps the logarithm of a rate finite"},
        kReductionOption},
       [](A a) {
         return poisson_nll_loss(a.input(0), a.input(1),
                                 {.log_input = a.flag("log_input", true),
                                  .full = a.flag("full", false),
                                  .eps = a.number("eps", 1e-8),
                                  .reduction = a.reduction()});
       }},
      {"gaussian_nll_loss",
       "probabilistic",
       "½·(log v + (x − t)²/v);  v = max(var, ε)",
       {{"input"}, {"target"}, {"var"}},
       {{"full", "0", "1: adds ½·log 2π"}, {"eps", "1e-6", "the least variance"}, kReductionOption},
       [](A a) {
         return gaussian_nll_loss(
             a.input(0), a.input(1), a.input(2),
             {.full = a.flag("full", false), .eps = a.number("eps", 1e-6), .reduction = a.reduction()});
       }},
  };
}

}  // namespace ebb
