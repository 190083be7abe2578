// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>

#include "ebb/losses/registry.h"
#include "worker/cases.h"

// The losses that are compared with other libraries: one row says what the inputs are; the formula is the registry's
// own, the others' are in bench/peers/formulas.py.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;
using Layout = std::function<Inputs(Size)>;

std::int64_t pick(Size size, std::int64_t tiny, std::int64_t small, std::int64_t medium, std::int64_t large) {
  return std::array{tiny, small, medium, large}[static_cast<std::size_t>(size)];
}
Shape tokens(Size s) { return {pick(s, 5, 16, 512, 2048), pick(s, 11, 64, 512, 32000)}; }  // a vocabulary's logits
Shape embeddings(Size s) { return {pick(s, 6, 16, 256, 2048), pick(s, 5, 64, 128, 512)}; }

// Columns of a layout: what each input holds. The shape is the layout's, or its rows alone.
struct Column {
  const char* name;
  Kind kind;
  bool differentiate = false;
  bool one_a_row = false;
};
Layout layout(Shape (*shape)(Size), std::vector<Column> columns) {
  return [=](Size size) {
    Inputs inputs;
    const Shape full = shape(size);
    for (const Column& c : columns) {
      const bool flat = c.one_a_row;
      inputs.push_back({c.name, c.kind, flat ? Shape{full[0]} : full, c.differentiate, full[full.rank() - 1]});
    }
    return inputs;
  };
}

constexpr Column kInput{"input", Kind::normal, true};
constexpr Column kTarget{"target", Kind::normal};
constexpr Column kSigns{"target", Kind::sign};
constexpr Column kBits{"target", Kind::binary};
constexpr Column kShares{"input", Kind::uniform, true};
constexpr Column kClasses{"target", Kind::classes, false, true};

Inputs ctc_inputs(Size s) {
  const std::int64_t steps = pick(s, 9, 16, 128, 512), batch = pick(s, 2, 2, 8, 32), classes = pick(s, 5, 16, 64, 128);
  const std::int64_t labels = pick(s, 3, 4, 16, 64);
  return {{"logits", Kind::normal, {steps, batch, classes}, true},
          {"targets", Kind::labels, {batch, labels}, false, classes},
          {"input_lengths", Kind::length, {batch}, false, steps},
          {"target_lengths", Kind::length, {batch}, false, labels}};
}
Inputs transducer_inputs(Size s) {
  const std::int64_t steps = pick(s, 4, 8, 32, 128), batch = pick(s, 2, 2, 4, 16), classes = pick(s, 5, 8, 32, 64);
  const std::int64_t labels = pick(s, 2, 3, 15, 31);
  return {{"logits", Kind::normal, {batch, steps, labels + 1, classes}, true},
          {"targets", Kind::labels, {batch, labels}, false, classes},
          {"input_lengths", Kind::length, {batch}, false, steps},
          {"target_lengths", Kind::length, {batch}, false, labels}};
}
Inputs margin_classes(Size s) {  // embeddings, one weight row a class, targets
  const Shape e = embeddings(s);
  const std::int64_t classes = pick(s, 7, 32, 512, 4096);
  return {{"embeddings", Kind::normal, e, true},
          {"weight", Kind::weights, {classes, e[1]}, true},
          {"target", Kind::classes, {e[0]}, false, classes}};
}
Inputs policy_tokens(Size s) {
  const Shape r = rows(s);
  return {{"policy", Kind::log_probs, r, true},
          {"advantages", Kind::normal, {r[0]}},
          {"old", Kind::log_probs, r},
          {"reference", Kind::log_probs, r}};
}
Inputs labelled_rows(Size s) {
  const Shape r = rows(s);
  return {{"input", Kind::normal, r, true}, {"target", Kind::some_labels, r, false, r[1]}};
}
Inputs sorted_rows(Size s) {  // sorting is not bound by memory: fewer elements
  const Shape r{pick(s, 3, 16, 512, 1024), pick(s, 7, 64, 512, 4096)};
  return {{"input", Kind::normal, r, true}, {"target", Kind::binary, r}};
}
Inputs pixel_classes(Size s) {
  const std::int64_t pixels = pick(s, 21, 128, 1 << 14, 1 << 18), classes = pick(s, 3, 8, 16, 16);
  return {{"input", Kind::probs, {pixels, classes}, true}, {"target", Kind::classes, {pixels}, false, classes}};
}
Inputs sparsemax_rows(Size s) {
  const Shape r{pick(s, 3, 16, 512, 1024), pick(s, 7, 64, 512, 4096)};
  return {{"input", Kind::normal, r, true}, {"target", Kind::classes, {r[0]}, false, r[1]}};
}
// Answers [2B, T, H], or [B, T, H] for losses of answers one by one, and an LM head [V, H].
Inputs linear_answers(Size s, bool with_reference, bool with_desirable, bool with_advantages) {
  const std::int64_t answers = pick(s, 2, 4, 8, 16), steps = pick(s, 3, 4, 32, 128), hidden = pick(s, 5, 16, 128, 512);
  const std::int64_t vocabulary = pick(s, 13, 32, 2048, 8192);
  Inputs inputs{{"x", Kind::normal, {answers, steps, hidden}, true},
                {"head", Kind::weights, {vocabulary, hidden}, true},
                {"target", Kind::classes, {answers, steps}, false, vocabulary}};
  // A reference that is about as likely as the answers: far from it the preference losses are flat.
  const auto likely =
      static_cast<std::int64_t>(static_cast<double>(-steps) * std::log(static_cast<double>(vocabulary)));
  if (with_reference) inputs.push_back({"reference", Kind::around, {answers}, false, likely});
  if (with_desirable) inputs.push_back({"desirable", Kind::mask, {answers}});
  if (with_advantages) inputs.push_back({"advantages", Kind::normal, {answers}});
  return inputs;
}
Inputs linear_tokens(Size s) {
  const std::int64_t tokens = pick(s, 5, 16, 256, 2048), hidden = pick(s, 7, 32, 128, 512);
  const std::int64_t vocabulary = pick(s, 23, 64, 4096, 32000);
  return {{"x", Kind::normal, {tokens, hidden}, true},
          {"head", Kind::weights, {vocabulary, hidden}, true},
          {"target", Kind::classes, {tokens}, false, vocabulary}};
}

struct Row {
  const char* name;
  Layout inputs;
  bool memory_bound = false;
};

std::vector<Row> table() {
  const Layout regression = layout(elements, {kInput, kTarget});
  const Layout signs = layout(elements, {kInput, kSigns});
  const Layout logits = layout(elements, {kInput, kBits});
  const Layout shares = layout(elements, {kShares, kBits});
  const Layout classes = layout(rows, {kInput, kClasses});
  const Layout masks = layout(rows, {kShares, kBits});
  const Layout views = layout(embeddings, {{"first", Kind::normal, true}, {"second", Kind::normal, true}});
  const Layout triplet = layout(
      rows, {{"anchor", Kind::normal, true}, {"positive", Kind::normal, true}, {"negative", Kind::normal, true}});
  const Layout two = layout(rows, {{"input1", Kind::normal, true}, {"input2", Kind::normal, true}});
  const Layout pair = layout(elements, {{"chosen", Kind::normal, true}, {"rejected", Kind::normal, true}});
  const Layout surely_unlikely = [](Size s) {  // log-probabilities: log of numbers below one
    return Inputs{{"chosen", Kind::log_probs, rows(s), true}, {"rejected", Kind::log_probs, rows(s), true}};
  };
  const Layout with_reference = layout(elements, {{"chosen", Kind::normal, true},
                                                  {"rejected", Kind::normal, true},
                                                  {"ref_chosen", Kind::normal},
                                                  {"ref_rejected", Kind::normal}});
  const auto answers = [](bool reference, bool desirable, bool advantages) {
    return [=](Size s) { return linear_answers(s, reference, desirable, advantages); };
  };
  return {
      {"mse_loss", regression, true},
      {"l1_loss", regression, true},
      {"smooth_l1_loss", regression, true},
      {"huber_loss", regression, true},
      {"pinball_loss", regression, true},
      {"log_cosh_loss", regression},
      {"wing_loss", regression},
      {"nll_loss", layout(tokens, {{"input", Kind::log_probs, true}, kClasses})},
      {"cross_entropy", layout(tokens, {kInput, kClasses})},
      {"softmax_focal_loss", classes},
      {"binary_cross_entropy", shares},
      {"binary_cross_entropy_with_logits", logits},
      {"multilabel_soft_margin_loss", layout(rows, {kInput, kBits})},
      {"sigmoid_focal_loss", logits},
      {"focal_loss_on_probabilities", shares},
      {"poly_loss", classes},
      {"sparsemax_loss", sparsemax_rows},
      {"listnet_loss", layout(rows, {kInput, kTarget})},
      {"perceptron_loss", signs, true},
      {"hinge_loss", signs, true},
      {"hinge_embedding_loss", signs, true},
      {"margin_ranking_loss",
       layout(elements, {{"input1", Kind::normal, true}, {"input2", Kind::normal, true}, kSigns}), true},
      {"soft_margin_loss", signs},
      {"multi_margin_loss", classes},
      {"multilabel_margin_loss", labelled_rows},
      {"triplet_margin_loss", triplet},
      {"triplet_margin_with_distance_loss", triplet},
      {"cosine_embedding_loss",
       layout(rows,
              {{"input1", Kind::normal, true}, {"input2", Kind::normal, true}, {"target", Kind::sign, false, true}})},
      {"cosine_similarity_loss", two},
      {"kl_div", layout(rows, {{"input", Kind::log_probs, true}, {"target", Kind::probs}})},
      {"kl_divergence", layout(rows, {{"p", Kind::probs, true}, {"q", Kind::probs, true}})},
      {"poisson_nll_loss", layout(elements, {kInput, {"target", Kind::positive}})},
      {"gaussian_nll_loss", layout(elements, {kInput, kTarget, {"var", Kind::positive, true}})},
      {"jsd_loss", layout(rows, {{"input", Kind::log_probs, true}, {"target", Kind::log_probs}})},
      {"tvd_loss", layout(rows, {{"input", Kind::probs, true}, {"target", Kind::probs}}), true},
      {"generalized_kl", layout(elements, {{"input", Kind::positive, true}, {"target", Kind::positive}})},
      {"dice_loss", masks},
      {"iou_loss", masks},
      {"tversky_loss", masks},
      {"lovasz_hinge", sorted_rows},
      {"lovasz_softmax", pixel_classes},
      {"info_nce", views},
      {"nt_xent", views},
      {"supcon_loss",
       [](Size s) {
         const Shape e = embeddings(s);
         return Inputs{{"features", Kind::normal, e, true}, {"labels", Kind::classes, {e[0]}, false, 4}};
       }},
      {"arcface_loss", margin_classes},
      {"cosface_loss", margin_classes},
      {"barlow_twins_loss", views},
      {"vicreg_loss", views},
      {"ctc_loss", ctc_inputs},
      {"rnnt_loss", transducer_inputs},
      {"dpo_loss", with_reference},
      {"ipo_loss", with_reference, true},
      {"kto_loss",
       layout(elements, {{"policy", Kind::normal, true}, {"reference", Kind::normal}, {"desirable", Kind::mask}})},
      {"orpo_loss", surely_unlikely},
      {"simpo_loss", pair},
      {"cpo_loss", pair},
      {"grpo_loss", policy_tokens},
      {"linear_cross_entropy", linear_tokens},
      {"linear_dpo_loss", answers(true, false, false)},
      {"linear_ipo_loss", answers(true, false, false)},
      {"linear_orpo_loss", answers(false, false, false)},
      {"linear_simpo_loss", answers(false, false, false)},
      {"linear_cpo_loss", answers(false, false, false)},
      {"linear_kto_loss", answers(true, true, false)},
      {"linear_grpo_loss", answers(false, false, true)},
  };
}

// orpo takes lists of log-probabilities, not rows. The alignments start from logits: PyTorch's ctc_loss gives the
// gradient of those, whatever it is handed.
Tensor by_name(const std::string& name, const Tensors& inputs) {
  if (name == "orpo_loss") return evaluate_loss(name, {flatten(inputs[0]), flatten(inputs[1])});
  if (name == "ctc_loss" || name == "rnnt_loss") {
    return evaluate_loss(name, {log_softmax(inputs[0]), inputs[1], inputs[2], inputs[3]});
  }
  return evaluate_loss(name, inputs);
}

}  // namespace

std::vector<Case> loss_cases() {
  std::vector<Case> cases;
  for (const Row& row : table()) {
    const std::string name = row.name;
    Case c;
    c.suite = "losses";
    c.name = name;
    c.inputs = row.inputs;
    c.loss = [name](const Tensors& inputs) { return by_name(name, inputs); };
    c.memory_bound = row.memory_bound;
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace bench
