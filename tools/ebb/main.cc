// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "commands.h"
#include "core/closest_name.h"
#include "exit.h"

namespace {

using namespace ebb::program;

void add_commands(CLI::App& app) {
#define EBB_ADD(name) add_##name##_command(app);
  EBB_COMMANDS(EBB_ADD)
#undef EBB_ADD
  app.require_subcommand(1);
}

// CLI11 takes the last number of a type for one beyond it.
template <class Number>
CLI::Validator fits_in() {
  const auto complaint = [](std::string& value) -> std::string {
    Number number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc::result_out_of_range) return {};
    using Limits = std::numeric_limits<Number>;
    return fmt::format("{} is beyond {}", value, value.starts_with('-') ? Limits::min() : Limits::max());
  };
  return CLI::Validator(complaint, "");
}
void refuse_numbers_beyond_their_types(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type.starts_with("INT")) option->check(fits_in<std::int64_t>());
      if (type.starts_with("UINT")) option->check(fits_in<std::uint64_t>());
    }
  }
}

// Values that an option takes, by the name that CLI11 has for its type.
std::string_view values_of(const std::string& type) {
  if (type.starts_with("UINT")) return "whole numbers from 0 on";
  if (type.starts_with("INT")) return "whole numbers";
  if (type.starts_with("FLOAT")) return "numbers";
  return type;
}

// CLI11 says "Could not convert: --hidden = abc".
std::string unreadable_value(const CLI::App& app, const std::string& said) {
  constexpr std::string_view kStart = "Could not convert: ";
  const std::size_t equals = said.find(" = ");
  const auto parsed = app.get_subcommands();
  if (!said.starts_with(kStart) || equals == said.npos || parsed.empty()) return said;
  const std::string name = said.substr(kStart.size(), equals - kStart.size());
  const CLI::Option* option = parsed.front()->get_option_no_throw(name);
  return option
             ? fmt::format("{} takes {}, got '{}'", name, values_of(option->get_type_name()), said.substr(equals + 3))
             : said;
}

// Names that other programs use for our options.
constexpr std::pair<std::string_view, std::string_view> kNamesElsewhere[] = {
    {"--learning-rate", "--lr"},         {"--early-stopping", "--patience"},
    {"--hidden-layers", "--hidden"},     {"--hidden-layer-sizes", "--hidden"},
    {"--random-state", "--seed"},        {"--test-size", "--test-fraction"},
    {"--test-split", "--test-fraction"}, {"--validation-split", "--validation-fraction"},
};

std::string suggestion(const std::string& wrong, const std::vector<std::string>& names) {
  return ebb::did_you_mean(wrong, std::vector<std::string_view>(names.begin(), names.end()));
}

// The first word if it does not name a command.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (word == "-v") return fmt::format("`ebb` has no option '{}'; did you mean '--version'?", word);
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return {};
  const std::string near = word == "version" ? "; did you mean '--version'?" : suggestion(word, names);
  return fmt::format("there is no command '{}'{}", word, near.empty() ? "; `ebb --help` lists them" : near);
}

bool can_take(const CLI::App& command, const std::string& option) {
  const CLI::Option* known = command.get_option_no_throw(option);
  return known && known->count() == 0;
}

// The option that a path without one may belong to: `ebb train people.csv`, `ebb predict runs/people new.csv`.
std::string option_of_path(const CLI::App& command, const std::string& word) {
  std::error_code ignored;
  if (std::filesystem::is_directory(word, ignored) && can_take(command, "--run")) return "--run";
  if (std::filesystem::exists(word, ignored) && can_take(command, "--data")) return "--data";
  return {};
}

// Superfluous words of the command line.
std::string unexpected_word(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> extras = command.remaining();
  const std::string word = extras.empty() ? "" : extras.front().substr(0, extras.front().find('='));
  const std::string called = parsed.empty() ? "ebb" : "ebb " + command.get_name();
  if (!word.starts_with('-')) {
    const std::string option = option_of_path(command, word);
    return fmt::format("`{}` does not take '{}'{}", called, word,
                       option.empty() ? fmt::format("; `{} --help` explains it", called)
                                      : fmt::format("; did you mean '{} {}'?", option, word));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::string near = suggestion(word, names);
  for (const auto& [elsewhere, here] : kNamesElsewhere) {
    if (word == elsewhere && command.get_option_no_throw(std::string(here)))
      near = fmt::format("; did you mean '{}'?", here);
  }
  return fmt::format("`{}` has no option '{}'{}", called, word,
                     near.empty() ? fmt::format("; `{} --help` lists them", called) : near);
}

// A required word is missing, perhaps because it is misspelt.
std::string missing_word(const CLI::App& app, const CLI::RequiredError& error) {
  const auto parsed = app.get_subcommands();
  const std::vector<std::string> extras = (parsed.empty() ? app : *parsed.front()).remaining();
  if (!extras.empty()) return unexpected_word(app);
  if (parsed.empty()) return fmt::format("a command is missing; `{} --help` lists them", app.get_name());
  std::string said = error.what();  // "Exactly 1 option from [--run,--checkpoint] is required", "name is required"
  const std::size_t open = said.find('['), comma = said.find(','), close = said.find(']');
  if (said.starts_with("Exactly 1 option from [") && comma < close) {
    said = fmt::format("{} or {} is required", said.substr(open + 1, comma - open - 1),
                       said.substr(comma + 1, close - comma - 1));
  }
  return fmt::format("`{} {}`: {}; `{} {} --help` shows examples", app.get_name(), parsed.front()->get_name(), said,
                     app.get_name(), parsed.front()->get_name());
}

// A text of several lines would hide the one that matters. If several processes all reject a word, one of them reports
// it; errors at run time are reported by the process they occur in.
enum class Trouble { with_words, at_work };
void complain(const char* text, Trouble trouble = Trouble::with_words) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || std::string_view(rank) == "0") {
    std::fprintf(stderr, "ebb: %s\n", text);
  } else if (trouble == Trouble::at_work) {
    std::fprintf(stderr, "ebb: rank %s: %s\n", rank, text);
  }
}

// A closed standard descriptor would be reused for the next file opened, and results printed into it. The wrong end of
// /dev/null occupies it: using it fails.
void fill_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    const int taken = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (taken >= 0 && taken != descriptor) ::close(taken);
  }
}

// Results lost on output are a failure, however late it shows: most are written by this flush.
int after_output(int code) {
  const bool lost_before = std::ferror(stdout) != 0;
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || !std::cout.good() || lost_before;
  if (!lost || code != kOk) return code;
  complain(fmt::format("the standard output cannot be written{}; its text is incomplete",
                       errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : "")
               .c_str(),
           Trouble::at_work);
  return kFailed;
}

int run(int argc, char** argv) {
  CLI::App app{"Losses, gradients and training from the command line.", EBB_PROGRAM_NAME};
  app.set_version_flag("-V,--version", "ebb " EBB_VERSION);
  app.set_help_all_flag("--help-all", "The help of all commands");
  app.footer("`" EBB_PROGRAM_NAME " COMMAND --help` explains a command and shows examples.");
  add_commands(app);
  refuse_numbers_beyond_their_types(app);
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "help") {  // `ebb help train` is `ebb train --help`
      words.erase(words.begin());
      words.emplace_back("--help");
    }
    if (const std::string text = words.empty() ? "" : unknown_command(app, words.front()); !text.empty()) {
      complain(text.c_str());
      return kWrongUsage;
    }
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
    return kOk;
  } catch (const CLI::ExtrasError&) {
    complain(unexpected_word(app).c_str());
    return kWrongUsage;
  } catch (const CLI::RequiredError& e) {
    complain(missing_word(app, e).c_str());
    return kWrongUsage;
  } catch (const CLI::ConversionError& e) {
    complain(unreadable_value(app, e.what()).c_str());
    return kWrongUsage;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    complain(e.what());
    return kWrongUsage;
  } catch (const Interrupted& e) {
    complain(e.what());
    return kInterrupted;
  } catch (const AllRanksFail& e) {
    complain(e.what());
    return kFailed;
  } catch (const std::exception& e) {
    // {fmt} throws if the output cannot be written; after_output() reports that.
    if (std::ferror(stdout) != 0 && dynamic_cast<const std::system_error*>(&e) != nullptr) return kOk;
    complain(e.what(), Trouble::at_work);
    return kFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_descriptors();
  return after_output(run(argc, argv));
}
