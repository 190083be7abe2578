// SPDX-License-Identifier: MIT
// The emulated device and the second device for programs that load them, with an Ebb library of their own: they install
// these tables, or this backend, there.
#include <cstring>

#include "cuda/emulated_device.h"
#include "cuda/library/cublaslt.h"
#include "cuda/runtime/driver.h"
#include "second_device.h"

using namespace ebb;

extern "C" {

void ebb_emulated_tables(const void** driver, const void** compiler, const void** products) {
  testing::emulate_device();
  *driver = &cuda::driver();
  *compiler = &cuda::compiler();
  *products = &cuda::lt();
}

// Requests to its streams since the last call, one line each.
void ebb_emulated_stream_calls(char* text, std::size_t room) {
  std::string all;
  for (const std::string& call : testing::emulated_stream_calls()) all += call + "\n";
  std::strncpy(text, all.c_str(), room - 1);
  text[room - 1] = '\0';
}

void* ebb_emulated_new_stream() { return testing::new_emulated_stream(); }
void ebb_emulated_capture(void* stream, int on) { testing::capture_emulated_stream(stream, on != 0); }

// The second device as cuda:`index`.
void* ebb_second_device(int index) {
  return &testing_device::new_second_device({Device::Kind::cuda, static_cast<std::uint8_t>(index)});
}

}  // extern "C"
