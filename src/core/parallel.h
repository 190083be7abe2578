// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <type_traits>

namespace ebb {

// Runs body(i) for i in [0, n), shared among the threads set by set_num_threads. The work of one i must not depend on
// which thread runs it: results are bit-identical for any number of threads. Exceptions propagate to the caller. With
// one task or one thread the body runs on the calling thread, at the cost of an indirect call.
void parallel_for(std::int64_t n, void (*body)(std::int64_t i, void* context), void* context);

template <class Body>
void parallel_for(std::int64_t n, Body&& body) {
  parallel_for(
      n, [](std::int64_t i, void* context) { (*static_cast<std::remove_reference_t<Body>*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ebb
