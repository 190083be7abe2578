#pragma once

namespace CLI {
class App;
}

// One function a command: it adds a subcommand with its options, and a callback that does the work. A callback throws
// ebb::Error for work that failed (exit code 1), CLI::ValidationError for wrong usage that only it can see (2) and
// Interrupted (130).
namespace ebb::program {}  // namespace ebb::program
