#include "cuda/runtime/open_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "core/format_error.h"

namespace ebb::cuda {
namespace {

std::vector<std::string> folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  const auto add = [&](const fs::path& folder) {
    std::error_code none;
    if (fs::is_directory(folder, none)) found.push_back(folder.string());
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) {
      add(fs::path(home) / "lib64");
      add(fs::path(home) / "lib");
    }
  }
  add("/usr/local/cuda/lib64");
  add("/usr/local/cuda/lib");
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&folders), &here) && here.dli_fname) {
    const fs::path package = fs::path(here.dli_fname).parent_path().parent_path();  // site-packages
    for (const char* name : {"cu13", "cu12", "cuda_nvrtc", "cublas", "nccl"}) add(package / "nvidia" / name / "lib");
  }
  return found;
}

}  // namespace

OpenLibrary OpenLibrary::try_open(const std::vector<std::string>& names) {
  OpenLibrary library;
  std::vector<std::string> places{""};  // where the system looks
  for (const std::string& folder : folders()) places.push_back(folder + "/");
  for (const std::string& place : places) {
    for (const std::string& name : names) {
      library.handle_ = dlopen((place + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      library.path_ = place + name;
      if (library.handle_) return library;
    }
  }
  return library;
}

OpenLibrary OpenLibrary::open(const std::string& what, const std::vector<std::string>& names, const std::string& cure) {
  OpenLibrary library = try_open(names);
  if (!library) {
    fail(Error::Kind::value, "cuda: {} was not found: looked for {} where the system keeps libraries and in {}; {}",
         what, fmt::join(names, ", "), fmt::join(folders(), ", "), cure);
  }
  return library;
}

void* OpenLibrary::function(const char* name) const {
  void* const found = dlsym(handle_, name);
  require(found != nullptr, "cuda: {} has no function {}; it is too old, install a newer one", path_, name);
  return found;
}

}  // namespace ebb::cuda
