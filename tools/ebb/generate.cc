// SPDX-License-Identifier: MIT
#include "generation.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "commands.h"
#include "core/format_error.h"
#include "device_option.h"
#include "ebb/memory.h"
#include "trainer.h"

namespace ebb::program {
namespace {

struct GenerateCommand {
  std::string run, checkpoint, folder, prompt;
  std::int64_t context = 0;
  GenerateOptions options;
  std::int64_t threads = 0;
  bool json = false;
};

void run_generate(const GenerateCommand& c) {
  if (c.threads > 0) set_num_threads(static_cast<int>(c.threads));
  if (c.context > 0 && c.folder.empty())
    throw CLI::ValidationError("--context is for --model; a run has the context it was trained with");
  const std::string path = !c.folder.empty()      ? c.folder
                           : c.checkpoint.empty() ? checkpoint_of_run(c.run)
                                                  : c.checkpoint;
  const TrainedModel trained = c.folder.empty() ? load_trained_model(path) : load_llama_folder(path, c.context);
  if (c.json) {
    const nlohmann::ordered_json out{{"checkpoint", path},
                                     {"prompt", c.prompt},
                                     {"text", continue_text(trained.model, trained.facts, c.prompt, c.options)},
                                     {"tokens", c.options.tokens},
                                     {"seed", c.options.seed}};
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  const auto show = [](const std::string& piece) {
    const bool written = std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && !std::fflush(stdout);
    require(written, Error::Kind::io, "generate: the standard output cannot be written ({})", std::strerror(errno));
  };
  bool begun = false;  // the prompt comes with the first piece: an error is not preceded by it
  const auto begin = [&] {
    if (!std::exchange(begun, true)) show(c.prompt);
  };
  continue_text(trained.model, trained.facts, c.prompt, c.options, [&](const std::string& piece) {
    begin();
    show(piece);
  });
  begin();
  show("\n");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Let a trained gpt or llama write");
  auto c = std::make_shared<GenerateCommand>();
  CLI::Option_group* from = sub->add_option_group("What writes");
  from->add_option("--run", c->run, "Folder of a run");
  from->add_option("--checkpoint", c->checkpoint, "A checkpoint file")->check(CLI::ExistingFile);
  from->add_option("--model", c->folder, "A Llama as Hugging Face's transformers writes it, with its tokenizer.json")
      ->check(CLI::ExistingDirectory);
  from->require_option(1);
  add_device_option(*sub);
  sub->add_option("--prompt", c->prompt, "How the text begins");
  sub->add_option("--context", c->context, "Tokens seen at once by --model (0: all it has positions for, at most 2048)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--tokens", c->options.tokens, "How many tokens to write")->capture_default_str();
  sub->add_option("--temperature", c->options.temperature, "0: always the likeliest token; above 1: daring")
      ->capture_default_str();
  sub->add_option("--top-k", c->options.top_k, "Choose among this many likeliest tokens (0: all)")
      ->capture_default_str();
  sub->add_option("--seed", c->options.seed, "Another seed, another text")->capture_default_str();
  sub->add_flag("--json", c->json, "Print a JSON object when all is written");
  sub->add_flag("--recompute", c->options.recompute,
                "Read the whole window again for every token: slow, for comparison");
  sub->add_option("--threads", c->threads, "Threads that compute (0: all)")->check(CLI::NonNegativeNumber);
  sub->footer(
      "Example:\n"
      "  ebb generate --run runs/gpt --prompt \"When the tide\" --tokens 100 --temperature 0.7\n"
      "  ebb generate --model Llama-3.2-1B --prompt \"When the tide\"");
  sub->callback([c] { run_generate(*c); });
}

}  // namespace ebb::program
