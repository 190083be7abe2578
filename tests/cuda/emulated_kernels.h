#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cuda/print/sweep_text.h"
#include "scratch_folder.h"

#ifndef EBB_CXX
#define EBB_CXX "g++"
#endif

namespace ebb::testing {

// Printed kernels, compiled for the CPU in one call of the compiler and run by emulated.h.
class EmulatedKernels {
 public:
  // Returns the kernel's number. Equal texts are one.
  int add(const cuda::SweepText& text) {
    const auto [it, fresh] = numbers_.try_emplace(text.text, static_cast<int>(numbers_.size()));
    if (!fresh) return it->second;
    const std::string n = std::to_string(it->second);
    const std::string head =
        "namespace k" + n + " {\n#define sweep sweep_" + n + "\n#define finish finish_" + n + "\n" + text.text;
    const std::string tail = "#undef sweep\n#undef finish\n}\n";
    device_source_ += head + tail;
    source_ += head;
    for (const std::string kernel : {"sweep", "finish"}) {
      if (kernel == "finish" && !text.finish_blocks) continue;
      source_ += "extern \"C\" int run_" + kernel + "_" + n +
                 "(unsigned blocks, const void* args, unsigned long long seed) {\n  return emulated::launch([](const "
                 "void* a) { " +
                 kernel + "(*static_cast<const Args*>(a)); }, blocks, args, seed);\n}\n";
    }
    source_ += tail;
    return it->second;
  }
  const std::string& device_source() const { return device_source_; }  // all kernels, for a compiler of CUDA

  void compile() {
    const std::filesystem::path here = std::filesystem::path(__FILE__).parent_path();
    {
      std::ofstream out(folder_ / "kernels.cc");
      out << "#include \"" << std::filesystem::absolute(here).string() << "/emulated.h\"\n"
          << cuda::prelude() << source_;
    }
    const std::string library = folder_ / "kernels.so";
    const std::string command = std::string(EBB_CXX) + " -std=c++17 -O0 -w -fPIC -shared -ffp-contract=off -o " +
                                library + " " + (folder_ / "kernels.cc");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }

  // Both kernels, with threads and blocks in an order of `seed`.
  void run(int number, const cuda::SweepText& text, const std::vector<Argument>& arguments, cuda::ErrorSlot& error,
           unsigned long long seed) const {
    std::vector<std::uint64_t> work(text.workspace / sizeof(std::uint64_t) + 1, 0x7FF4'5A5A'5A5A'5A5Aull);
    const std::vector<std::uint64_t> words = cuda::bound_words(text, arguments, &error, 0, work.data());
    launch("sweep", number, text.blocks, words, seed);
    if (text.finish_blocks) launch("finish", number, text.finish_blocks, words, seed + 1);
  }

 private:
  void launch(const std::string& kernel, int number, unsigned blocks, const std::vector<std::uint64_t>& words,
              unsigned long long seed) const {
    const std::string name = "run_" + kernel + "_" + std::to_string(number);
    using Run = int (*)(unsigned, const void*, unsigned long long);
    const auto run = reinterpret_cast<Run>(dlsym(library_, name.c_str()));
    ASSERT_NE(run, nullptr) << name;
    ASSERT_EQ(run(blocks, words.data(), seed), 0) << name;
  }

  ScratchFolder folder_;
  std::string source_, device_source_;
  std::map<std::string, int> numbers_;
  void* library_ = nullptr;
};

}  // namespace ebb::testing
