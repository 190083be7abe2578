// SPDX-License-Identifier: MIT
#include "comm/mpi_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "core/format_error.h"

namespace ebb::comm {
namespace {

constexpr const char* kCure = "install Open MPI (Debian: apt-get install openmpi-bin), version 3 or later";

void* open_library(std::string& path) {
  // libmpi.so.40 is Open MPI's name for it. The plain name may be any MPI's: its version tells.
  for (const char* name : {"libmpi.so.40", "libmpi.so"}) {
    // Its own plugins look up its symbols.
    if (void* const found = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) {
      path = name;
      return found;
    }
  }
  fail(Error::Kind::io, "MPI: libmpi.so.40 cannot be opened, which several processes need; {}", kCure);
}

std::string version_of(void* library) {
  using Function = int (*)(char*, int*);
  const auto get = reinterpret_cast<Function>(dlsym(library, "MPI_Get_library_version"));
  if (!get) return "an MPI before version 3";
  std::array<char, 9000> text{};  // more than any MPI needs
  int length = 0;
  get(text.data(), &length);
  const std::string all = text.data();
  return all.substr(0, all.find_first_of(",\n"));
}

MpiLibrary load() {
  MpiLibrary m;
  std::string path;
  void* const library = open_library(path);
  m.version = version_of(library);
  const auto symbol = [&](const char* name) {
    void* const found = dlsym(library, name);
    require(found != nullptr && m.version.starts_with("Open MPI"), Error::Kind::io,
            "MPI: {} is {}, and Ebb speaks the binary interface of Open MPI; {}", path, m.version, kCure);
    return found;
  };
  m.world = symbol("ompi_mpi_comm_world");
  m.byte = symbol("ompi_mpi_byte");
  m.errors_return = symbol("ompi_mpi_errors_return");
#define EBB_LOAD(name, parameters) m.name = reinterpret_cast<int(*) parameters>(symbol("MPI_" #name));
  EBB_MPI_FUNCTIONS(EBB_LOAD)
#undef EBB_LOAD
  return m;
}

}  // namespace

const MpiLibrary& mpi_library() {
  static const MpiLibrary* const loaded = new MpiLibrary(load());
  return *loaded;
}

bool launched_by_mpi() {
  // Variables of Open MPI's mpirun; of PMIx, which it and `srun --mpi=pmix` use; and of the launchers of other MPIs.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name)) return true;
  }
  return false;
}

}  // namespace ebb::comm
