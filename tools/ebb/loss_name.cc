// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "ebb/error.h"
#include "ebb/losses/registry.h"
#include "loss_name.h"
#include "loss_options.h"

namespace ebb::program {

// CLI11 puts the argument's name, `loss`, before what is wrong with it, as the library does.
CLI::Option* add_loss_name(CLI::App& command, std::string& name) {
  return command.add_option("loss", name, "A loss; `ebb losses` lists them")
      ->type_name(kLossType)
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            try {
              loss_info(text);
              return "";
            } catch (const Error& e) {
              const std::string_view complaint = e.what();
              return std::string(complaint.substr(complaint.starts_with("loss: ") ? 6 : 0));
            }
          },
          ""));
}

void add_loss_options(CLI::App& command, std::vector<std::string>& options) {
  command.add_option("-o,--option", options, "An option of the loss; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

LossOptionValues loss_options(const std::string& loss, const std::vector<std::string>& options) {
  LossOptionValues values;
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw CLI::ValidationError("--option takes NAME=VALUE, got '" + text + "'");
    const std::string name = text.substr(0, equals);
    try {
      const std::string value = text.substr(equals + 1);
      values[name] = loss_option_from_text(loss, name, value);
      if (name == "reduction") reduction_from_name(value);
    } catch (const Error& e) {
      throw CLI::ValidationError(e.what());
    }
  }
  return values;
}

}  // namespace ebb::program
