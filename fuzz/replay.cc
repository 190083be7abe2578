// Runs every target on its stored inputs: fuzz_replay CORPUS, or fuzz_replay CORPUS TARGET FILE... for some. With
// EBB_RANDOM_GRAPHS=N the target `graph` gets that many random inputs more.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "target.h"

namespace fs = std::filesystem;

namespace {

void run_file(const ebb::fuzz::Target& target, const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::printf("%s %s\n", target.name, path.c_str());  // the last line before a crash names the input
  std::fflush(stdout);
  target.run({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

void run_random(const ebb::fuzz::Target& target, unsigned count, unsigned first) {
  for (unsigned seed = first; seed < first + count; ++seed) {
    std::mt19937 draw(seed);
    std::vector<std::uint8_t> bytes(8 + draw() % 120);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(draw());
    if (std::getenv("EBB_RANDOM_SHOWN")) std::printf("%s seed %u\n", target.name, seed), std::fflush(stdout);
    target.run(bytes);
  }
  std::printf("%s: %u random inputs\n", target.name, count);
}

unsigned number(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "fuzz_replay CORPUS [TARGET FILE...]\n"), 2;
  std::size_t files = 0;
  for (const ebb::fuzz::Target* target : ebb::fuzz::targets()) {
    if (argc > 2 && std::strcmp(argv[2], target->name) != 0) continue;
    if (argc > 3) {
      for (int k = 3; k < argc; ++k, ++files) run_file(*target, argv[k]);
      continue;
    }
    std::vector<fs::path> paths;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fs::path(argv[1]) / target->name, none)) paths.push_back(entry);
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) run_file(*target, path);
    files += paths.size();
    if (paths.empty()) return std::fprintf(stderr, "%s has no stored inputs\n", target->name), 1;
    if (std::strcmp(target->name, "graph") == 0)
      run_random(*target, number("EBB_RANDOM_GRAPHS", 400), number("EBB_RANDOM_FIRST", 0));
  }
  std::printf("%zu inputs, no finding\n", files);
  return files == 0 ? 1 : 0;
}
