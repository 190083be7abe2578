// SPDX-License-Identifier: MIT
#include "cuda/runtime/open_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

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
    for (const char* name : {"cu13", "cu12", "cuda_nvrtc", "cublas", "cudnn", "cusolver", "nccl"})
      add(package / "nvidia" / name / "lib");
  }
  return found;
}

}  // namespace

OpenLibrary OpenLibrary::try_open(const std::vector<std::string>& names) {
  OpenLibrary library;
  std::vector<std::string> places{""};  // the system's search path
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

void* OpenLibrary::try_function(const char* name) const { return dlsym(handle_, name); }

void* OpenLibrary::function(const char* name) const {
  void* const found = try_function(name);
  require(found != nullptr, "cuda: {} has no function {}; it is too old, install a newer one", path_, name);
  return found;
}

// Calls into other libraries go through addresses filled in by the dynamic linker; its tables name the function that
// each belongs to (ELF, "Dynamic Linking").
void OpenLibrary::redirect([[maybe_unused]] const char* name, [[maybe_unused]] void* other) const {
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
  constexpr std::uint64_t kCalled = R_X86_64_JUMP_SLOT, kTaken = R_X86_64_GLOB_DAT;
#else
  constexpr std::uint64_t kCalled = R_AARCH64_JUMP_SLOT, kTaken = R_AARCH64_GLOB_DAT;
#endif
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return;
  const auto entry = [&](std::int64_t tag) -> std::uint64_t {
    for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
      if (d->d_tag == tag) return d->d_un.d_val;
    }
    return 0;
  };
  const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(entry(DT_SYMTAB));
  const auto* const names = reinterpret_cast<const char*>(entry(DT_STRTAB));
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& [table, bytes] : {std::pair{DT_JMPREL, DT_PLTRELSZ}, std::pair{DT_RELA, DT_RELASZ}}) {
    const auto* const first = reinterpret_cast<const ElfW(Rela)*>(entry(table));
    for (std::size_t k = 0; first && k < entry(bytes) / sizeof(ElfW(Rela)); ++k) {
      const std::uint64_t kind = ELF64_R_TYPE(first[k].r_info), symbol = ELF64_R_SYM(first[k].r_info);
      if ((kind != kCalled && kind != kTaken) || std::string_view(names + symbols[symbol].st_name) != name) continue;
      const std::uintptr_t at = map->l_addr + first[k].r_offset, start = at / page * page;
      if (::mprotect(reinterpret_cast<void*>(start), at + sizeof other - start, PROT_READ | PROT_WRITE) == 0)
        std::memcpy(reinterpret_cast<void*>(at), &other, sizeof other);
    }
  }
#endif
}

}  // namespace ebb::cuda
