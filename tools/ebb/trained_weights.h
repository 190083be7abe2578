// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "choices.h"
#include "trainer.h"

namespace ebb::program {

// The trained network a command uses: --run with --use, or --checkpoint.
struct TrainedWeights {
  std::string run, checkpoint, which;

  void add_options(CLI::App* command, const char* title) {
    CLI::Option_group* from = command->add_option_group(title);
    from->add_option("--run", run, "Folder of a run");
    from->add_option("--checkpoint", checkpoint, "A checkpoint file")->check(CLI::ExistingFile);
    from->require_option(1);
    command
        ->add_option("--use", which,
                     "Weights of the run: the best ones, or the last (best where validation chose them)")
        ->check(one_of({"best", "last"}));
  }
  std::string path() const { return checkpoint.empty() ? checkpoint_of_run(run, which) : checkpoint; }
};

}  // namespace ebb::program
