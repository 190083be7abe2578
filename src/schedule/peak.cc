// SPDX-License-Identifier: MIT
#include "schedule/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "core/format_error.h"
#include "schedule/strips.h"

namespace ebb {
namespace {

constexpr std::size_t kNamed = 3;  // number of largest tensors listed

class Estimate {
 public:
  Estimate(const Plan& plan, const Trace& trace) : plan_(plan), trace_(trace), bytes_(plan.graph.values.size(), 0) {}

  // Values in other memory are not counted: the leaves, and these.
  Peak of_strip(const std::vector<std::int32_t>& elsewhere) {
    elsewhere_.insert(elsewhere.begin(), elsewhere.end());
    run();
    return std::move(peak_);
  }

  Peak whole() {
    for (std::size_t v = 0; v < plan_.graph.values.size(); ++v) {
      const Value& x = plan_.graph.values[v];
      if (x.is_leaf && x.op == Op::data)
        hold(static_cast<std::int32_t>(v), held_bytes(plan_, trace_, static_cast<std::int32_t>(v)));
    }
    for (std::int32_t r : plan_.graph.roots) kept_.insert(plan_.graph.memory(r));
    run();
    return std::move(peak_);
  }

 private:
  void hold(std::int32_t v, std::size_t bytes) {
    now_ += bytes;
    bytes_[static_cast<std::size_t>(v)] = bytes;
  }

  void run() {
    peak_.bytes = now_;
    std::size_t worst = 0;
    const std::vector<std::size_t> at_first = bytes_;
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const std::size_t inside = begin(plan_.steps[s]);
      if (now_ + inside > peak_.bytes) {
        peak_ = {now_ + inside, inside};
        worst = s;
      }
      end(plan_.steps[s]);
    }
    bytes_ = at_first;  // once more, up to the step that takes most
    for (std::size_t s = 0; s < plan_.steps.size() && s <= worst; ++s) {
      begin(plan_.steps[s]);
      if (s < worst) end(plan_.steps[s]);
    }
    name_largest();
  }

  // Adds what a step fills. Returns what it holds besides.
  std::size_t begin(const PlanStep& step) {
    for (std::int32_t v : step.outputs) {
      if (!elsewhere_.contains(v)) hold(v, held_bytes(plan_, trace_, v));
    }
    return step.strips ? bytes_of_strip(*step.strips) : 0;
  }
  void end(const PlanStep& step) {
    for (std::int32_t v : step.release) {
      if (plan_.graph.values[v].is_leaf || kept_.contains(v)) continue;
      now_ -= bytes_[static_cast<std::size_t>(v)];
      bytes_[static_cast<std::size_t>(v)] = 0;
    }
  }

  void name_largest() {
    for (std::size_t v = 0; v < bytes_.size(); ++v) {
      if (bytes_[v] > 0) peak_.largest.emplace_back(bytes_[v], static_cast<std::int32_t>(v));
    }
    const std::size_t n = std::min(kNamed, peak_.largest.size());
    std::partial_sort(peak_.largest.begin(), peak_.largest.begin() + static_cast<std::ptrdiff_t>(n),
                      peak_.largest.end(), std::greater<>());
    peak_.largest.resize(n);
  }

  const Plan& plan_;
  const Trace& trace_;
  std::vector<std::size_t> bytes_;  // of each value that is held now
  std::set<std::int32_t> kept_, elsewhere_;
  std::size_t now_ = 0;
  Peak peak_;
};

}  // namespace

std::size_t held_bytes(const Plan& plan, const Trace& trace, std::int32_t v) {
  const Value& x = plan.graph.values[v];
  if (x.is_leaf) {
    std::size_t bytes = size_of(x.dtype);
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (x.strides[d] != 0 || x.shape[d] == 0) bytes *= static_cast<std::size_t>(x.shape[d]);
    }
    return bytes;
  }
  const NodeExtra* extra = x.node >= 0 && x.strips < 0 ? trace.nodes[x.node]->extra.get() : nullptr;
  if (x.is_call() && extra && !extra->output_types.empty()) {
    std::size_t bytes = 0;
    for (const auto& [shape, dtype] : extra->output_types)
      bytes += static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    return bytes;
  }
  return static_cast<std::size_t>(allocated_elements(x)) * size_of(x.dtype);
}

std::size_t bytes_of_strip(const StripLoop& loop) {
  const StripBody& body = loop.bodies[0];
  return Estimate(body.plan, body.trace).of_strip(body.outputs).bytes;
}

Peak estimate_peak(const Plan& plan, const Trace& trace) { return Estimate(plan, trace).whole(); }

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<const char*, 4> units{"bytes", "KiB", "MiB", "GiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, units[unit]);
}

std::string describe(const Peak& peak, const Plan& plan) {
  std::string text = "about " + bytes_text(peak.bytes);
  const char* separator = ": ";
  const auto add = [&](const std::string& what, std::size_t bytes) {
    text += fmt::format("{}{} {}", separator, what, bytes_text(bytes));
    separator = ", ";
  };
  for (const auto& [bytes, v] : peak.largest) {
    const Value& x = plan.graph.values[v];
    add(fmt::format("{}{} of {}", name(x.dtype), x.shape, x.is_leaf ? "memory" : info(x.op).name), bytes);
  }
  if (peak.of_strip > 0) add("one strip", peak.of_strip);
  return text;
}

}  // namespace ebb
