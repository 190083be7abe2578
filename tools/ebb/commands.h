// SPDX-License-Identifier: MIT
#pragma once

namespace CLI {
class App;
}

// The commands of the program, in the order of its help. NAME.cc (or the file of its family) defines add_NAME_command:
// it adds a subcommand with its options, and a callback that does the work. A callback throws ebb::Error for failed
// work (exit code 1), CLI::ValidationError for wrong usage that only it can detect (2) and Interrupted (130).
#define EBB_COMMANDS(X)                                                                                      \
  X(train)                                                                                                   \
  X(eval)                                                                                                    \
  X(predict) X(generate) X(loss) X(losses) X(ops) X(gradcheck) X(plot) X(info) X(doctor) X(convert) X(bench) \
      X(completion)

namespace ebb::program {

#define EBB_DECLARE(name) void add_##name##_command(CLI::App& app);
EBB_COMMANDS(EBB_DECLARE)
#undef EBB_DECLARE

}  // namespace ebb::program
