// SPDX-License-Identifier: MIT
#include "doctor/findings.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "comm/mpi_library.h"
#include "core/format_error.h"
#include "cpu/tile/kernels.h"
#include "cuda/backend.h"
#include "cuda/library/cublaslt.h"
#include "cuda/library/cudnn.h"
#include "cuda/library/cusolver.h"
#include "cuda/library/nccl.h"
#include "cuda/runtime/driver.h"
#include "ebb/memory.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

// `use` throws an Error that says what to install if it is missing.
template <class Use>
Finding finding_of(const char* name, Use use) {
  try {
    return {name, use(), ""};
  } catch (const Error& e) {
    return {name, "", e.what()};
  }
}

Finding find_gpus() {
  std::string all;
  for (int i = 0; i < cuda::count(); ++i) all += fmt::format("{}cuda:{} {}", i ? "; " : "", i, cuda::describe(i));
  return {"GPU", all, all.empty() ? cuda::why_unavailable(0) : ""};
}

// The same folder as in src/cuda/runtime/kernel_cache.cc.
Finding find_cache() {
  const char* const limit = std::getenv("EBB_CUDA_CACHE_MB");
  const char *const cache = std::getenv("XDG_CACHE_HOME"), *const home = std::getenv("HOME");
  const bool has_cache = cache && *cache, has_home = home && *home;
  if (limit && std::string_view(limit) == "0") return {"kernel cache", "", "switched off by EBB_CUDA_CACHE_MB=0"};
  if (!has_cache && !has_home) return {"kernel cache", "", "set XDG_CACHE_HOME or HOME: kernels are compiled anew"};
  const fs::path folder = (has_cache ? fs::path(cache) : fs::path(home) / ".cache") / "ebb" / "cuda";
  fs::path there = folder;
  while (!fs::exists(there) && there.has_relative_path()) there = there.parent_path();
  if (::access(there.c_str(), W_OK) != 0)
    return {"kernel cache", "", fmt::format("{} cannot be written; kernels are compiled anew", folder.string())};
  return {"kernel cache", folder.string(), ""};
}

}  // namespace

std::vector<Finding> find_environment() {
  std::vector<Finding> all;
  all.push_back({"SIMD", cpu::tile_kernels().target, ""});
  all.push_back({"threads", std::to_string(num_threads()), ""});
  all.push_back({"NVIDIA driver", cuda::find_driver() ? "libcuda.so.1" : "",
                 cuda::find_driver() ? "" : fmt::format("{}; only computing on a GPU needs it", cuda::no_driver())});
  all.push_back(find_gpus());
  all.push_back(finding_of("NVRTC", [] { return cuda::compiler(), "compiles kernels"; }));
  // It does not start without a GPU.
  all.push_back(cuda::count() > 0 ? finding_of("cuBLASLt", [] { return cuda::lt(), "multiplies matrices"; })
                                  : Finding{"cuBLASLt", "", "not looked for without a GPU"});
  all.push_back({"cuDNN", cuda::cudnn_table() ? "convolves" : "",
                 "convolutions on a GPU are faster with it: `pip install nvidia-cudnn-cu12` (or -cu13)"});
  all.push_back({"cuSOLVER", cuda::cusolver_table() ? "factorises matrices" : "",
                 "cholesky, solve, svd and eigh on a GPU are faster with it: `pip install nvidia-cusolver` (CUDA 12: "
                 "nvidia-cusolver-cu12)"});
  all.push_back({"NCCL", cuda::nccl() ? "sums between GPUs" : "",
                 "several GPUs need it: `pip install nvidia-nccl-cu12`, or Debian's libnccl2"});
  all.push_back(find_cache());
  all.push_back(finding_of("MPI", [] { return comm::mpi_library().version; }));
  return all;
}

}  // namespace ebb
