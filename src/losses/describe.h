// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/options.h"
#include "ebb/losses/registry.h"

// The description of a loss, next to its formula: its options struct by each_option(), the rest by describe().
namespace ebb {

// Options that are not numbers: the reduction is a word, and tensors are optional inputs.
enum class HasGradient : bool { no, yes };

class LossLister : public OptionLister {
 public:
  std::vector<LossInput> inputs;

  using OptionLister::operator();
  void operator()(const char* name, Reduction value, const char* meaning = "none, mean or sum of the terms") {
    add(name, std::string(ebb::name(value)), meaning, OptionInfo::Kind::word);
  }
  // A member of an enumeration with name_of() and a function that finds values by name.
  template <class Enum>
  void word(const char* name, Enum value, Enum (*)(std::string_view), const char* meaning) {
    add(name, std::string(name_of(value)), meaning, OptionInfo::Kind::word);
  }
  void operator()(const char* name, const Tensor&, HasGradient gradient = HasGradient::yes) {
    ++members;
    inputs.push_back({name, gradient == HasGradient::yes, true});
  }
};

class LossReader : public OptionReader {
 public:
  LossReader(std::string_view loss, const std::vector<Tensor>& inputs, const LossOptionValues& options)
      : OptionReader(loss, options), inputs_(inputs) {}

  using OptionReader::operator();
  void operator()(const char* name, Reduction& value, const char* = nullptr) const {
    if (std::string given; OptionReader::word(name, given)) value = reduction_from_name(given);
  }
  template <class Enum>
  void word(const char* name, Enum& value, Enum (*from_name)(std::string_view), const char*) const {
    if (std::string given; OptionReader::word(name, given)) value = from_name(given);
  }
  void operator()(const char*, Tensor& value, HasGradient = HasGradient::yes) { value = next_input(); }
  Tensor next_input() { return next_ < inputs_.size() ? inputs_[next_++] : Tensor(); }

 private:
  const std::vector<Tensor>& inputs_;
  std::size_t next_ = 0;
};

// A loss of tensors and of one or more options structs. `inputs` are the required tensors.
template <class... Arguments>
LossInfo describe(std::string_view name, std::string_view family, std::string_view formula,
                  std::vector<LossInput> inputs, Tensor (*loss)(const Arguments&...)) {
  LossLister list;
  list.inputs = std::move(inputs);
  const auto list_argument = [&]<class Argument>(std::type_identity<Argument>) {
    if constexpr (!std::is_same_v<Argument, Tensor>) list_options<LossLister, Argument>(list, name);
  };
  (list_argument(std::type_identity<Arguments>()), ...);
  // The reduction comes last, wherever the structs have it.
  std::stable_partition(list.options.begin(), list.options.end(),
                        [](const LossOption& o) { return o.name != "reduction"; });
  const auto evaluate = [name, loss](const std::vector<Tensor>& given, const LossOptionValues& options) {
    LossReader read(name, given, options);
    const auto argument = [&]<class Argument>(std::type_identity<Argument>) {
      Argument value;
      if constexpr (std::is_same_v<Argument, Tensor>) {
        value = read.next_input();
      } else {
        each_option(read, value);
      }
      return value;
    };
    // Braces, so that arguments are evaluated in order.
    const std::tuple<Arguments...> arguments{argument(std::type_identity<Arguments>())...};
    return std::apply(loss, arguments);
  };
  return {name, family, formula, std::move(list.inputs), std::move(list.options), evaluate};
}

// The entries by family; loss_registry() is all of them, in this order.
std::vector<LossInfo> regression_entries();
std::vector<LossInfo> robust_entries();
std::vector<LossInfo> classification_entries();
std::vector<LossInfo> binary_entries();
std::vector<LossInfo> ranking_entries();
std::vector<LossInfo> margin_entries();
std::vector<LossInfo> distance_entries();
std::vector<LossInfo> probabilistic_entries();
std::vector<LossInfo> divergence_entries();
std::vector<LossInfo> segmentation_entries();
std::vector<LossInfo> contrastive_entries();
std::vector<LossInfo> alignment_entries();
std::vector<LossInfo> preference_entries();
std::vector<LossInfo> policy_entries();
std::vector<LossInfo> routing_entries();
std::vector<LossInfo> linear_entries();
std::vector<LossInfo> linear_head_entries();
std::vector<LossInfo> linear_preference_entries();

// Descriptions of options shared by several losses.
inline constexpr const char* kIgnored = "a target that does not count";
inline constexpr const char* kSoftcapped = "> 0: bounds the logits by softcap·tanh(x/softcap)";
inline constexpr const char* kWithBatchmean = "none, mean, sum or batchmean of the terms";

}  // namespace ebb
