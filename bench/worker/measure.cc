#include "worker/measure.h"

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

Prepared::Prepared(const Case& c, Size size, DType dtype, bool with_gradient, bool by_hand, bool reference)
    : case_(c),
      inputs_(c.inputs(size)),
      tensors_(make_inputs(inputs_, dtype)),
      with_gradient_(with_gradient),
      by_hand_(by_hand) {
  if (by_hand && !c.by_hand) throw Error("bench: " + c.name + " was not written by hand");
  if (!reference) return;
  for (Tensor& t : tensors_) {
    if (is_floating(t.dtype())) t = cast(t, DType::f64).eval();
  }
}

Tensors Prepared::once() const {
  return by_hand_ ? case_.by_hand(tensors_, with_gradient_) : run(case_, inputs_, tensors_, with_gradient_);
}

json Prepared::first_call() const {
  const double start = now();
  Tensors results = once();
  const double first = now() - start;
  json checks = json::array();
  for (const Tensor& result : results) checks.push_back(summary(result));
  results.clear();
  // Memory of a call after the first, from a pool that keeps nothing: what the process grows by, and what was handed
  // out.
  release_cached_memory();
  reset_process_peak();
  reset_peak_memory();
  const std::size_t before = process_bytes("VmRSS:"), live = memory_stats().live;
  const double again = now();
  results = once();
  const double second = now() - again;
  const std::size_t peak = process_bytes("VmHWM:");
  return {{"first_s", first},
          {"estimate_s", second},
          {"peak_bytes", peak > before ? peak - before : 0},
          {"pool_peak_bytes", memory_stats().peak - live},
          {"results", checks}};
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
  for (const std::string& loss : losses_without_a_case()) {
    std::cout << "the loss " << loss << " is in the registry, but no case measures it\n";
    ++wrong;
  }
  for (const Case& c : all_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && c.f32_only) continue;
      for (const bool with_gradient : {false, true}) {
        const Tensors expected = Prepared(c, Size::tiny, dtype, with_gradient, false, true).once();
        for (const bool by_hand : {false, true}) {
          if (by_hand && !c.by_hand) continue;
          const Tensors results = Prepared(c, Size::tiny, dtype, with_gradient, by_hand, false).once();
          const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
          for (std::size_t k = 0; k < results.size(); ++k, ++checked) {
            const auto got = results[k].to_vector<double>(), reference = expected.at(k).to_vector<double>();
            if (close(got, reference, tolerance)) continue;
            std::cout << c.suite << "/" << c.name << " " << name(dtype) << (by_hand ? " by hand" : "") << ", result "
                      << k << ": got " << results[k] << "\nexpected " << expected[k] << "\n";
            ++wrong;
          }
        }
      }
    }
  }
  std::cout << checked << " results of " << all_cases().size() << " cases checked, " << wrong << " wrong\n";
  return wrong != 0;
}

}  // namespace bench
