#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "exit.h"

namespace {

using namespace ebb::program;

void add_commands(CLI::App& app) {
  for (auto add : {add_train_command, add_eval_command, add_generate_command, add_loss_command, add_losses_command,
                   add_ops_command, add_gradcheck_command, add_plot_command, add_info_command, add_bench_command,
                   add_completion_command}) {
    add(app);
  }
  app.require_subcommand(1);
}

// A text of several lines would hide which line matters.
void complain(const char* text) { std::fprintf(stderr, "ebb: %s\n", text); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Losses, gradients and training from the command line.", "ebb"};
  app.set_version_flag("--version", "ebb " EBB_VERSION);
  app.set_help_all_flag("--help-all", "The help of all commands");
  app.footer("`ebb COMMAND --help` explains a command and shows examples.");
  add_commands(app);
  try {
    app.parse(argc, argv);
    return kOk;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    complain(e.what());
    return kWrongUsage;
  } catch (const Interrupted& e) {
    complain(e.what());
    return kInterrupted;
  } catch (const std::exception& e) {
    complain(e.what());
    return kFailed;
  }
}
