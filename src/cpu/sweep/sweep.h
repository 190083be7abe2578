#pragma once
#include <memory>
#include <span>

#include "sweep/program.h"

namespace ebb::cpu {

// A sweep made ready for this machine: kernels chosen, registers given tiles. Immutable, may be run by several threads.
struct CompiledSweep;

std::shared_ptr<const CompiledSweep> compile(const Program& program);

// Binds the program's slots and runs it. Errors that depend on data (an index out of range, a failed check) are thrown
// when all rows are done, for the lowest position.
void run(const CompiledSweep& sweep, std::span<const Argument> arguments);

}  // namespace ebb::cpu
