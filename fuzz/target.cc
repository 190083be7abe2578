// SPDX-License-Identifier: MIT
#include "target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/mapped_file.h"

namespace ebb::fuzz {
namespace {

std::vector<const Target*>& all() {
  static std::vector<const Target*> list;
  return list;
}

}  // namespace

Target::Target(const char* name, void (*run)(Bytes)) : name(name), run(run) { all().push_back(this); }
const std::vector<const Target*>& targets() { return all(); }

std::string file_of(Bytes bytes) {
  io::given_file = {"input", std::as_bytes(bytes)};
  return io::given_file.path;
}

std::string opened_file_of(Bytes bytes) {
  static const int file = ::memfd_create("input", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, 0) != 0 ||
      ::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::perror("an input in memory");
    std::exit(1);
  }
  return "/proc/self/fd/" + std::to_string(file);
}

void found(const std::string& what) {
  std::fprintf(stderr, "FOUND: %s\n", what.c_str());
  std::abort();
}

}  // namespace ebb::fuzz

#ifdef EBB_LIBFUZZER
namespace {

// The target named in the environment.
const ebb::fuzz::Target& chosen() {
  const char* name = std::getenv("EBB_FUZZ");
  for (const ebb::fuzz::Target* target : ebb::fuzz::targets()) {
    if (name != nullptr && std::strcmp(name, target->name) == 0) return *target;
  }
  std::fprintf(stderr, "EBB_FUZZ must name a target:");
  for (const ebb::fuzz::Target* target : ebb::fuzz::targets()) std::fprintf(stderr, " %s", target->name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ebb::fuzz::Target& target = chosen();
  target.run({data, size});
  return 0;
}
#endif
