#pragma once
#include <cstdint>
#include <vector>

#include "sweep/program.h"

namespace ebb::cuda {

// Between passes over a row its leaves lie on chip, in chunks of 16 bytes for each leaf. At first these are staged
// operands; a pass may leave values there instead that later passes would make again, in chunks that no later pass
// reads.
struct KeptValue {
  std::int32_t value = -1;
  DType dtype = DType::f32;  // as which it lies there: no bit of it is lost
  std::vector<int> chunks;
};

inline int chunks_of(DType dtype) { return static_cast<int>(size_of(dtype)) / 2; }  // of a leaf: eight elements

// What the passes over a row make, one after the other: values of the line whose cones they compute.
using PassRoots = std::vector<std::vector<std::int32_t>>;

struct Keeping {
  std::vector<std::vector<KeptValue>> before;  // by pass: what it finds beside operands
};

// Chooses what is kept. Staged operands have their chunks in order; `coarse`: values made by quick functions.
Keeping keep_values(const Program& program, const std::vector<std::int32_t>& staged, const PassRoots& passes,
                    const std::vector<char>& coarse);

// Instructions of the GPU that an element of this value takes, about, without what it is made of.
double instructions_of(const Program& program, std::int32_t value, bool coarse);

}  // namespace ebb::cuda
