// SPDX-License-Identifier: MIT
#include "worker/measure.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>

namespace bench {
namespace {

using namespace ebb;
using nlohmann::json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A line of /proc/self/status in bytes; 0 where there is none.
std::size_t process_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return std::stoull(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}
void reset_process_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

constexpr int kJudgedSteps = 5;  // as many as peers/protocol.py

// Bytes of the process and of the pool.
struct Bytes {
  std::size_t process, pool;
  static Bytes now() {
    release_cached_memory();
    return {process_bytes("VmRSS:"), memory_stats().live};
  }
};
// Peak memory of `body` beyond `before`, from a pool that keeps nothing.
template <class Body>
Bytes memory_of(const Bytes& before, Body body) {
  release_cached_memory();
  reset_process_peak();
  reset_peak_memory();
  body();
  const std::size_t peak = process_bytes("VmHWM:");
  return {peak > before.process ? peak - before.process : 0, memory_stats().peak - before.pool};
}

// All bits of the elements, for "the same or not" (FNV-1a).
std::uint64_t fingerprint(const Tensors& all) {
  std::uint64_t hash = 14695981039346656037u;
  for (const Tensor& t : all) {
    for (const double x : t.to_vector<double>()) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(x)) * 1099511628211u;
    }
  }
  return hash;
}

const char* name_of(Way way) {
  return way == Way::compiled ? " compiled" : way == Way::rebuilt ? " rebuilt" : " by hand";
}

bool close(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  if (got.size() != expected.size()) return false;
  double scale = 1e-3;
  for (double e : expected) scale = std::max(scale, std::abs(e));
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (!(std::abs(got[k] - expected[k]) <= tolerance * scale)) return false;
  }
  return true;
}

}  // namespace

json summary(const Tensor& result) {
  const std::vector<double> all = result.to_vector<double>();
  double squares = 0;
  for (double x : all) squares += x * x;
  json elements = json::array();
  const std::size_t last = all.empty() ? 0 : all.size() - 1;
  for (std::size_t k = 0; k < 8 && !all.empty(); ++k) elements.push_back(all[k * last / 7]);
  return {{"count", all.size()}, {"norm", std::sqrt(squares)}, {"elements", elements}};
}

Prepared::Prepared(const Case& c, Size size, DType dtype, bool with_gradient, Way way, bool reference)
    : case_(c), inputs_(c.inputs(size)), with_gradient_(with_gradient) {
  pool_before_ = memory_stats().live;
  tensors_ = make_inputs(inputs_, dtype);
  const auto built = [this](const Tensors& inputs) { return build(case_, inputs_, inputs, with_gradient_); };
  switch (way) {
    case Way::compiled:
      call_ = compile(FunctionToMany(built));
      break;
    case Way::rebuilt:
      call_ = [built](const Tensors& inputs) {
        Tensors results = built(inputs);
        eval(results);
        return results;
      };
      break;
    case Way::by_hand:
      if (!c.by_hand) throw Error("bench: " + c.name + " was not written by hand");
      call_ = [this](const Tensors& inputs) { return case_.by_hand(inputs, with_gradient_); };
      break;
  }
  if (reference) {
    for (Tensor& t : tensors_) {
      if (is_floating(t.dtype())) t = cast(t, DType::f64).eval();
    }
  }
  if (!c.training) return;
  training_ = c.training(size, tensors_);
  tensors_.clear();  // the training has what it needs
}

Tensors Prepared::once() const {
  if (training_) return {training_->step()};
  return call_(tensors_);
}

Tensors Prepared::results() const {
  if (!training_) return once();
  Tensors losses;
  for (int k = 0; k < kJudgedSteps; ++k) losses.push_back(training_->step());
  return {stack(losses).eval()};
}

json Prepared::first_call() const {
  json answer;
  const double start = now();
  if (training_) {
    Tensors losses{training_->step()};
    answer["first_s"] = now() - start;
    while (losses.size() < kJudgedSteps) losses.push_back(training_->step());
    answer["results"] = {summary(stack(losses))};
  } else {
    const Tensors results = once();
    answer["first_s"] = now() - start;
    answer["results"] = json::array();
    for (const Tensor& result : results) answer["results"].push_back(summary(result));
  }
  // Memory of a call after the first: what the process grows by, and what was handed out. Of a training all counts: the
  // whole process, and what the pool holds of parameters and the optimiser's state.
  Tensors results;
  const Bytes grown = memory_of(training_ ? Bytes{0, pool_before_} : Bytes::now(), [&] {
    const double again = now();
    results = once();
    answer["estimate_s"] = now() - again;
  });
  answer["peak_bytes"] = grown.process;
  answer["pool_peak_bytes"] = grown.pool;
  if (training_) answer["gradients"] = gradients();
  return answer;
}

json Prepared::gradients() const {
  Tensors all;
  const Bytes grown = memory_of(Bytes::now(), [&] { all = training_->gradients(); });
  std::size_t kept = 0;
  for (const Tensor& g : all) kept += static_cast<std::size_t>(g.numel()) * size_of(g.dtype());
  return {{"bits", fingerprint(all)}, {"pool_peak_bytes", grown.pool}, {"bytes", kept}};
}

json Prepared::time(int samples, int calls_a_sample) const {
  json seconds = json::array();
  for (int s = 0; s < samples; ++s) {
    const double start = now();
    for (int k = 0; k < calls_a_sample; ++k) once();
    seconds.push_back((now() - start) / calls_a_sample);
  }
  return seconds;
}

int smoke() {
  int wrong = 0, checked = 0;
  for (const Case& c : all_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && c.f32_only) continue;
      for (const bool with_gradient : {false, true}) {
        if (c.training && !with_gradient) continue;
        const Tensors expected = Prepared(c, Size::tiny, dtype, with_gradient, Way::rebuilt, true).results();
        for (const Way way : {Way::compiled, Way::rebuilt, Way::by_hand}) {
          if (way == Way::by_hand && !c.by_hand) continue;
          const Prepared prepared(c, Size::tiny, dtype, with_gradient, way, false);
          if (way == Way::compiled && !c.training) prepared.once();  // so that the results are not those of the first
          const Tensors results = prepared.results();
          const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
          for (std::size_t k = 0; k < results.size(); ++k, ++checked) {
            const auto got = results[k].to_vector<double>(), reference = expected.at(k).to_vector<double>();
            if (close(got, reference, tolerance)) continue;
            std::cout << c.suite << "/" << c.name << " " << name(dtype) << name_of(way) << ", result " << k << ": got "
                      << results[k] << "\nexpected " << expected[k] << "\n";
            ++wrong;
          }
        }
      }
    }
  }
  for (const Case& c : all_cases()) {
    if (c.same_bits_as.empty()) continue;
    const Case& other = find_case(c.suite, c.same_bits_as);
    const auto bits = [](const Case& of) {
      return Prepared(of, Size::tiny, DType::f32, true, Way::rebuilt, false).gradients().at("bits");
    };
    ++checked;
    if (bits(c) == bits(other)) continue;
    std::cout << c.suite << "/" << c.name << ": its gradients are not those of " << other.name << " to the last bit\n";
    ++wrong;
  }
  std::cout << checked << " results of " << all_cases().size() << " cases checked, " << wrong << " wrong\n";
  return wrong != 0;
}

}  // namespace bench
