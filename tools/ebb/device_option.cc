// SPDX-License-Identifier: MIT
#include "device_option.h"

#include "ebb/device.h"

namespace ebb::program {

void add_device_option(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--device",
          [](const std::string& name) {
            const Device gpu = device_from_name("cuda:0");
            set_default_device(name == "auto" ? (is_available(gpu) ? gpu : Device{}) : device_from_name(name));
          },
          "Where it is computed: cpu, cuda, cuda:N, or auto (a GPU where there is one); default: cpu")
      ->type_name("DEVICE");
}

}  // namespace ebb::program
