// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

namespace ebb {

// Copies the dense elements of `from` to memory of another device.
BufferPtr copied(const Storage& from, std::size_t bytes, std::size_t element, Device to);

// Evaluates a node of Op::to_device: its input first, on its own device.
void move_between_devices(const Tensor& moved);

}  // namespace ebb
