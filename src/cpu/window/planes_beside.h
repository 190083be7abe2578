// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/call.h"
#include "core/parallel.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/kernels.h"
#include "cpu/window/kernels.h"

namespace ebb::cpu {

// Planes whose lines are shorter than a vector, side by side: element k of `pitch` planes is one run, [k][plane], so
// that a step of a pool covers that many planes, whatever its windows are. Bit-identical to processing plane by plane.
struct PlanesBeside {
  std::int64_t planes, pitch;

  PlanesBeside(std::int64_t planes, std::int64_t elements) : planes(planes), pitch(elements <= 128 ? 64 : 16) {}
  // For images [N, C, H, W] and windows [N, C, P, Q], where vectors would go along lines of so many elements.
  static bool pays(const Shape& image, const Shape& windows, std::int64_t line) {
    const CpuModel& model = cpu_model();
    return line <= model.pool_beside_line && image[0] * image[1] >= model.pool_beside_planes &&
           std::max(image[2] * image[3], windows[2] * windows[3]) <= model.pool_beside_elements;
  }

  // body(first, many): planes [first, first + many), many <= pitch.
  template <class Body>
  void each_block(Body&& body) const {
    const std::int64_t step = cpu_model().pool_task_planes;  // a multiple of the pitch
    parallel_for((planes + step - 1) / step, [&](std::int64_t task) {
      for (std::int64_t first = task * step; first < std::min(planes, (task + 1) * step); first += pitch)
        body(first, std::min(pitch, planes - first));
    });
  }
};

// to[k·pitch + p] = element k of plane first + p of v [N, C, H, W], any strides.
template <class T>
void load_beside(const View& v, std::int64_t first, std::int64_t many, T* to, std::int64_t pitch,
                 std::vector<std::byte>& scratch);
// The inverse, to a dense v.
template <class T>
void store_beside(const View& v, std::int64_t first, std::int64_t many, const T* from, std::int64_t pitch,
                  std::vector<std::byte>& scratch);

}  // namespace ebb::cpu
