#pragma once

namespace CLI {
class App;
}

// One function a command: it adds a subcommand with its options, and a callback that does the work. A callback throws
// ebb::Error for work that failed (exit code 1), CLI::ValidationError for wrong usage that only it can see (2) and
// Interrupted (130).
namespace ebb::program {

void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_loss_command(CLI::App& app);
void add_losses_command(CLI::App& app);
void add_ops_command(CLI::App& app);
void add_gradcheck_command(CLI::App& app);
void add_plot_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_completion_command(CLI::App& app);

}  // namespace ebb::program
