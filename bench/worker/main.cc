// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "worker/by_hand.h"
#include "worker/measure.h"

// Answers requests of bench/compare.py, one JSON object a line:
//   {"do": "list", "suite": S}                                      the cases of a suite
//   {"do": "inputs", suite, case, size, dtype, "directory": D}      writes each input's elements to a file
//   {"do": "prepare", suite, case, size, dtype, mode, way?, reference?}
//   {"do": "time", "samples": N, "calls": K}                        of what was prepared last
//   {"do": "drop"}   {"do": "floors"}   {"do": "copy", "bytes": B, "samples": N}   {"do": "arithmetic", "samples": N}
// `ebb_bench_worker --smoke` checks every case at its tiny size instead.
namespace bench {
namespace {

using nlohmann::json;
using namespace ebb;

json list(const json& request) {
  json cases = json::array();
  for (const Case& c : all_cases()) {
    if (c.suite != request.at("suite").get<std::string>()) continue;
    json sizes = json::array();
    for (Size size : c.sizes) sizes.push_back(name(size));
    cases.push_back({{"case", c.name},
                     {"sizes", sizes},
                     {"modes", c.gradients_only ? json{"value+grad"} : json{"value", "value+grad"}},
                     {"dtypes", c.f32_only ? json{"f32"} : json{"f32", "bf16"}},
                     {"by_hand", c.by_hand_name},
                     {"training", static_cast<bool>(c.training)},
                     {"same_bits_as", c.same_bits_as},
                     {"memory_bound", c.memory_bound},
                     {"nodes", c.nodes}});
  }
  return cases;
}

json write_inputs(const json& request) {
  const Case& c = find_case(request.at("suite"), request.at("case"));
  const std::vector<Input> inputs = c.inputs(size_from_name(request.at("size")));
  const Tensors tensors = make_inputs(inputs, dtype_from_name(request.at("dtype").get<std::string>()));
  json written = json::array();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& t = tensors[k];
    const std::string file = std::filesystem::path(request.at("directory").get<std::string>()) / inputs[k].name;
    const std::size_t bytes = static_cast<std::size_t>(t.numel()) * size_of(t.dtype());
    std::ofstream out(file, std::ios::binary);
    switch (t.dtype()) {
      case DType::f32:
        out.write(reinterpret_cast<const char*>(t.data<float>()), std::streamsize(bytes));
        break;
      case DType::f64:
        out.write(reinterpret_cast<const char*>(t.data<double>()), std::streamsize(bytes));
        break;
      case DType::bf16:
        out.write(reinterpret_cast<const char*>(t.data<BFloat16>()), std::streamsize(bytes));
        break;
      case DType::f16:
        out.write(reinterpret_cast<const char*>(t.data<Half>()), std::streamsize(bytes));
        break;
      case DType::i64:
        out.write(reinterpret_cast<const char*>(t.data<std::int64_t>()), std::streamsize(bytes));
        break;
      case DType::bool_:
        out.write(reinterpret_cast<const char*>(t.data<bool>()), std::streamsize(bytes));
        break;
      default:
        throw Error("bench: no input has the dtype " + std::string(name(t.dtype())));
    }
    if (!out) throw Error("bench: could not write " + file);
    written.push_back({{"name", inputs[k].name},
                       {"file", file},
                       {"dtype", std::string(name(t.dtype()))},
                       {"shape", std::vector<std::int64_t>(t.shape().begin(), t.shape().end())},
                       {"differentiate", inputs[k].differentiate}});
  }
  return written;
}

Way way(const json& request) {
  const std::string name = request.value("way", "compiled");
  if (name == "compiled") return Way::compiled;
  if (name == "rebuilt") return Way::rebuilt;
  if (name == "by_hand") return Way::by_hand;
  throw Error("bench: there is no way '" + name + "' to compute a case");
}

class Worker {
 public:
  json answer(const json& request) {
    const std::string what = request.at("do");
    if (what == "list") return {{"cases", list(request)}};
    if (what == "inputs") return {{"inputs", write_inputs(request)}};
    if (what == "prepare") {
      prepared_ = std::make_unique<Prepared>(
          find_case(request.at("suite"), request.at("case")), size_from_name(request.at("size")),
          dtype_from_name(request.at("dtype").get<std::string>()), request.at("mode") == "value+grad", way(request),
          request.value("reference", false));
      return prepared_->first_call();
    }
    if (what == "time") {
      if (!prepared_) throw Error("bench: nothing was prepared to be timed");
      return {{"seconds", prepared_->time(request.at("samples"), request.at("calls"))}};
    }
    if (what == "drop") {
      prepared_.reset();
      release_cached_memory();
      return json::object();
    }
    if (what == "copy") {
      return {{"seconds", time_copies(request.at("bytes"), request.at("samples"), num_threads())}};
    }
    if (what == "arithmetic") return {{"seconds", time_arithmetic(request.at("samples"), num_threads())}};
    if (what == "floors") {
      const Floors floors = measure_floors(num_threads());
      return {{"copy_bytes_per_second", floors.copy_bytes_per_second},
              {"gemm_flops_per_second", floors.gemm_flops_per_second}};
    }
    throw Error("bench: cannot do '" + what + "'");
  }

 private:
  std::unique_ptr<Prepared> prepared_;
};

int serve() {
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      answer = worker.answer(json::parse(line));
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (const char* threads = std::getenv("EBB_BENCH_THREADS")) ebb::set_num_threads(std::atoi(threads));
  if (argc > 1 && std::string(argv[1]) == "--smoke") return bench::smoke();
  return bench::serve();
}
