// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

// Options of a library call: one struct type per operation, with ==, known only to the code that makes the call and the
// code that runs it (src/calls). The graph compares them, adds them to a plan's key and prints them. A struct names its
// fields once:
//
//   struct AttentionCall {
//     double scale = 1;
//     bool causal = false;
//     bool operator==(const AttentionCall&) const = default;
//     template <class Visit> void each_field(Visit&& visit) const { visit("scale", scale); visit("causal", causal); }
//   };
//   make_node(Op::attention, ..., with_options(AttentionCall{...}));    options_as<AttentionCall>(call.attrs)
namespace ebb {

class CallOptions;
using OptionsPtr = std::shared_ptr<const CallOptions>;

// A call that computes only the first output of another: its options, and which of the other's inputs it takes.
struct FirstOutputCall {
  OptionsPtr options;
  std::vector<std::size_t> inputs;
};

class CallOptions {
 public:
  virtual ~CallOptions() = default;
  virtual bool equals(const CallOptions& other) const = 0;
  // Appends words to a plan's key; options of one type with equal words are equal.
  virtual void append_key(std::vector<std::uint64_t>& words) const = 0;
  // "causal=true scale=0.5": the fields that differ from a default-constructed struct.
  virtual std::string print() const = 0;
  // Empty for a call whose first output costs as much as all of them.
  virtual std::optional<FirstOutputCall> first_output(std::size_t inputs) const = 0;
  // The same call with a result of shape [N, ..., C] instead of [N, C, ...]; null if there is none.
  virtual OptionsPtr channels_last() const = 0;

  std::uint64_t hash() const;
};

namespace call_options {

using Pair = std::array<std::int64_t, 2>;
class KeyWriter {
 public:
  explicit KeyWriter(std::vector<std::uint64_t>& words) : words_(words) {}
  void operator()(const char*, bool x) { words_.push_back(x); }
  void operator()(const char*, std::int64_t x) { words_.push_back(static_cast<std::uint64_t>(x)); }
  void operator()(const char*, double x);
  void operator()(const char*, const Pair& x);

 private:
  std::vector<std::uint64_t>& words_;
};

std::string text_of(const char* name, bool x);
std::string text_of(const char* name, std::int64_t x);
std::string text_of(const char* name, double x);
std::string text_of(const char* name, const Pair& x);

}  // namespace call_options

template <class Options>
class OptionsOf final : public CallOptions {
 public:
  explicit OptionsOf(const Options& v) : value(v) {}

  bool equals(const CallOptions& other) const override {
    return typeid(other) == typeid(*this) && static_cast<const OptionsOf&>(other).value == value;
  }
  void append_key(std::vector<std::uint64_t>& words) const override {
    value.each_field(call_options::KeyWriter(words));
  }
  std::string print() const override {
    std::vector<std::string> usual;
    Options().each_field([&](const char* name, const auto& x) { usual.push_back(call_options::text_of(name, x)); });
    std::string text;
    std::size_t next = 0;
    value.each_field([&](const char* name, const auto& x) {
      std::string one = call_options::text_of(name, x);
      if (one != usual[next++]) text += (text.empty() ? "" : " ") + std::move(one);
    });
    return text;
  }
  std::optional<FirstOutputCall> first_output(std::size_t inputs) const override {
    if constexpr (requires { value.first_output(inputs); }) {
      return value.first_output(inputs);
    } else {
      return {};
    }
  }
  OptionsPtr channels_last() const override {
    if constexpr (requires { value.channels_last(); }) {
      return value.channels_last();
    } else {
      return nullptr;
    }
  }

  const Options value;
};

template <class Options>
OptionsPtr make_options(const Options& options) {
  return std::make_shared<const OptionsOf<Options>>(options);
}

[[noreturn]] void fail_for_options(const char* wanted, const CallOptions* found);

// The options of a call, for operations whose options are of this type.
template <class Options>
const Options& options_as(const CallOptions* options) {
  const auto* const found = dynamic_cast<const OptionsOf<Options>*>(options);
  if (!found) fail_for_options(typeid(Options).name(), options);
  return found->value;
}

}  // namespace ebb
