// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "core/buffer.h"

namespace ebb::cpu {

// dst[i] = src[i] for every index of their common shape; any strides, one dtype, no overlap. Runs in parallel if large
// enough.
void copy_elements(const View& dst, const View& src);
// Sets every element to zero.
void zero_elements(const View& dst);

// The same elements, dense in row-major order: `src` itself if it is already, else a copy owned by `keep`.
View packed(const View& src, BufferPtr& keep, const char* what);
// A dense copy in f32 of a half tensor.
View packed_as_f32(const View& src, BufferPtr& keep, const char* what);

std::byte* element_at(const View& view, std::int64_t offset);

}  // namespace ebb::cpu
