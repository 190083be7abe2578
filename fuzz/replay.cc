// SPDX-License-Identifier: MIT
// Runs every target on its stored inputs: fuzz_replay CORPUS, or fuzz_replay CORPUS TARGET FILE... for some.
// EBB_MUTATIONS=N tries N damaged versions of them as well, blindly, but anywhere and fast; EBB_RANDOM_GRAPHS=N gives
// the target `graph` that many random inputs. EBB_RANDOM_FIRST is the first seed, EBB_RANDOM_SHOWN=1 prints each.
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

using Input = std::vector<std::uint8_t>;

Input read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void run_file(const ebb::fuzz::Target& target, const fs::path& path) {
  std::printf("%s %s\n", target.name, path.c_str());  // the last line before a crash names the input
  std::fflush(stdout);
  target.run(read(path));
}

bool shown() {
  static const bool yes = std::getenv("EBB_RANDOM_SHOWN") != nullptr;
  return yes;
}

Input damaged(const std::vector<Input>& seeds, std::mt19937& draw) {
  Input bytes = seeds[draw() % seeds.size()];
  for (std::size_t times = 1 + draw() % 4; times > 0 && !bytes.empty(); --times) {
    const std::size_t at = draw() % bytes.size(), rest = bytes.size() - at;
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (draw() % 8) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1u << draw() % 8);
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(draw());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(place, 1 + draw() % 16, static_cast<std::uint8_t>(draw()));
        break;
      case 4:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(1 + draw() % std::min<std::size_t>(rest, 16)));
        break;
      case 5:  // a number that is far too large, or nothing
        std::fill_n(place, std::min<std::size_t>(rest, 1u << draw() % 4), draw() % 2 ? 0xff : 0);
        break;
      case 6: {  // a piece of another file
        const Input& other = seeds[draw() % seeds.size()];
        if (other.empty()) break;
        const std::size_t from = draw() % other.size();
        const std::size_t count = std::min<std::size_t>({rest, other.size() - from, draw() % 64});
        std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), count, place);
        break;
      }
      case 7: {  // a digit: sizes in headers are text
        const auto digit = std::find_if(place, bytes.end(), [](std::uint8_t c) { return c >= '0' && c <= '9'; });
        if (digit != bytes.end()) *digit = static_cast<std::uint8_t>('0' + draw() % 10);
      }
    }
  }
  return bytes;
}

void run_mutations(const ebb::fuzz::Target& target, const std::vector<fs::path>& paths, unsigned count,
                   unsigned first) {
  std::vector<Input> seeds;
  for (const fs::path& path : paths) seeds.push_back(read(path));
  for (unsigned seed = first; seed < first + count; ++seed) {
    std::mt19937 draw(seed);
    if (shown()) std::printf("%s mutation %u\n", target.name, seed), std::fflush(stdout);
    target.run(damaged(seeds, draw));
  }
  std::printf("%s: %u damaged inputs\n", target.name, count);
  std::fflush(stdout);
}

void run_random(const ebb::fuzz::Target& target, unsigned count, unsigned first) {
  for (unsigned seed = first; seed < first + count; ++seed) {
    std::mt19937 draw(seed);
    std::vector<std::uint8_t> bytes(8 + draw() % 120);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(draw());
    if (shown()) std::printf("%s seed %u\n", target.name, seed), std::fflush(stdout);
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
    const unsigned first = number("EBB_RANDOM_FIRST", 0);
    if (std::strcmp(target->name, "graph") == 0) {
      run_random(*target, number("EBB_RANDOM_GRAPHS", 300), first);
    } else {
      run_mutations(*target, paths, number("EBB_MUTATIONS", 2000), first);
    }
  }
  std::printf("%zu inputs, no finding\n", files);
  return files == 0 ? 1 : 0;
}
