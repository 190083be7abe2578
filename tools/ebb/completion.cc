// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "choices.h"
#include "commands.h"
#include "ebb/losses/registry.h"
#include "gradcheck.h"
#include "loss_name.h"

// `ebb completion`: shell scripts generated from the program's commands and options.
namespace ebb::program {
namespace {

struct Word {
  std::vector<std::string> spellings;  // --json; empty for positional arguments
  bool takes_value = false, takes_file = false;
  std::vector<std::string> values;  // allowed values, if there is a list
};

struct Command {
  std::string name, description;
  std::vector<Word> words;
};

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const LossInfo& loss : loss_registry()) names.emplace_back(loss.name);
  return names;
}

// The type of an option as help prints it says which values are allowed: LOSS, FILE, or a list in braces.
Word word_of(const CLI::Option& option) {
  Word w;
  for (const std::string& s : option.get_snames()) w.spellings.push_back("-" + s);
  for (const std::string& s : option.get_lnames()) w.spellings.push_back("--" + s);
  w.takes_value = option.get_items_expected_max() > 0;
  const std::string type = option.get_type_name();
  w.takes_file = type == "FILE" || type == "FOLDER";
  if (type == kLossType) w.values = loss_names();
  if (type == "GLOB") w.values = gradcheck_names();
  const std::size_t open = type.find('{'), close = type.rfind('}');
  if (open != std::string::npos && close != std::string::npos) {
    w.values = CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
  }
  return w;
}

std::vector<Command> commands_of(const CLI::App& root) {
  std::vector<Command> all;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    Command c{app->get_name(), app->get_description(), {}};
    for (const CLI::Option* option : app->get_options()) c.words.push_back(word_of(*option));
    all.push_back(std::move(c));
  }
  return all;
}

std::string flags_of(const Command& c) {
  std::vector<std::string> flags;
  for (const Word& w : c.words) {
    // One spelling of each: the long one.
    if (!w.spellings.empty()) flags.push_back(w.spellings.back());
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& c : commands) names.push_back(c.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// Positional arguments: their values, or files if there is no list.
const Word* positional_of(const Command& c) {
  for (const Word& w : c.words) {
    if (w.spellings.empty()) return &w;
  }
  return nullptr;
}

// Both bash and zsh: `values` offers words, `files` offers files.
std::string cases_of(const Command& c, const char* values, const char* files) {
  std::string text = fmt::format("    {})\n      case \"$previous\" in\n", c.name);
  for (const Word& w : c.words) {
    if (w.spellings.empty() || !w.takes_value) continue;
    const std::string action = !w.values.empty() ? fmt::format(fmt::runtime(values), fmt::join(w.values, " "))
                               : w.takes_file    ? files
                                                 : ":";
    text += fmt::format("        {}) {}; return ;;\n", fmt::join(w.spellings, "|"), action);
  }
  text += "      esac\n";
  const Word* word = positional_of(c);
  const std::string flags = fmt::format(fmt::runtime(values), flags_of(c));
  std::string plain = ":";
  if (word != nullptr && !word->values.empty()) plain = fmt::format(fmt::runtime(values), fmt::join(word->values, " "));
  if (word != nullptr && word->takes_file) plain = files;
  text += fmt::format("      case \"$current\" in -*) {} ;; *) {} ;; esac ;;\n", flags, plain);
  return text;
}

// `name` is what the program is called.
std::string bash_script(const std::string& name, const std::vector<Command>& commands) {
  const char* values = "COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))";
  const char* files = "COMPREPLY=($(compgen -f -- \"$current\"))";
  std::string text = fmt::format("# Completion of {0} for bash: source <({0} completion bash)\n_ebb() {{\n", name);
  text += "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n  COMPREPLY=()\n";
  text += fmt::format("  if [ \"$COMP_CWORD\" -le 1 ]; then {}; return; fi\n",
                      fmt::format(fmt::runtime(values), names_of(commands) + " --help --version"));
  text += "  case \"${COMP_WORDS[1]}\" in\n";
  for (const Command& c : commands) text += cases_of(c, values, files);
  return text + "  esac\n}\ncomplete -o filenames -F _ebb " + name + "\n";
}

std::string zsh_script(const std::string& name, const std::vector<Command>& commands) {
  const char* values = "compadd -- {}";
  std::string text = fmt::format(
      "#compdef {0}\n# Completion of {0} for zsh: {0} completion zsh > a folder of $fpath/_{0}\n_ebb() {{\n", name);
  text += "  local current=\"$words[CURRENT]\" previous=\"$words[CURRENT-1]\"\n";
  text += fmt::format("  if (( CURRENT <= 2 )); then {}; return; fi\n",
                      fmt::format(fmt::runtime(values), names_of(commands) + " --help --version"));
  text += "  case \"$words[2]\" in\n";
  for (const Command& c : commands) text += cases_of(c, values, "_files");
  return text + "  esac\n}\n_ebb \"$@\"\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_script(const std::string& name, const std::vector<Command>& commands) {
  std::string text = fmt::format(
      "# Completion of {0} for fish: {0} completion fish > ~/.config/fish/completions/{0}.fish\ncomplete -c {0} -f\n",
      name);
  for (const Command& c : commands) {
    text +=
        fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", name, c.name, fish_quoted(c.description));
    for (const Word& w : c.words) {
      std::string line = fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", name, c.name);
      for (const std::string& s : w.spellings) {
        line += s.starts_with("--") ? " -l " + s.substr(2) : " -s " + s.substr(1);
      }
      if (w.takes_value && !w.spellings.empty()) line += " -r";
      if (w.takes_file) line += " -F";
      if (!w.values.empty()) line += fmt::format(" -a {}", fish_quoted(fmt::format("{}", fmt::join(w.values, " "))));
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes words in a shell");
  command->add_option("shell", *shell, "For this shell")->required()->check(one_of({"bash", "zsh", "fish"}));
  command->footer("In bash: source <(" + app.get_name() + " completion bash)");
  command->callback([shell, &app] {
    const std::vector<Command> commands = commands_of(app);
    const auto script = *shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script;
    fmt::print("{}", script(app.get_name(), commands));
  });
}

}  // namespace ebb::program
