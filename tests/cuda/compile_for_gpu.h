#pragma once
#include <string>

#include "cuda/runtime/driver.h"
#include "cuda/runtime/open_library.h"

namespace ebb::testing {

// What NVRTC has to say of a text that it does not take for this architecture; nothing where it takes it, or where it
// cannot be had. Not by the table of functions that the emulated device may have replaced.
inline std::string compile_error(const std::string& source, const std::string& architecture) {
  using namespace cuda;
  const auto library = OpenLibrary::try_open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  if (!library) return "";
  Compiler c;
#define EBB_LOAD(name, symbol, parameters) c.name = reinterpret_cast<Result(*) parameters>(library.function(#symbol));
  EBB_CUDA_COMPILER(EBB_LOAD)
#undef EBB_LOAD
  RtcProgram program = nullptr;
  if (c.create(&program, source.c_str(), "text.cu", 0, nullptr, nullptr) != kSuccess) return "no program was made";
  const std::string target = "--gpu-architecture=" + architecture;
  const char* const options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
  std::string log;
  if (c.compile(program, 3, options) != kSuccess) {
    std::size_t bytes = 0;
    c.log_size(program, &bytes);
    log.resize(bytes);
    c.log(program, log.data());
    log = architecture + "\n" + log.substr(0, 4000);
  }
  c.destroy(&program);
  return log;
}

}  // namespace ebb::testing
