// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "ebb/ops/create.h"
#include "files.h"
#include "io/deflate.h"
#include "io/safetensors.h"
#include "target.h"

// A checkpoint as stored on disk, or one with a correct checksum whose metadata and names are the input: even with a
// correct checksum nothing may be trusted.
EBB_FUZZ_TARGET(checkpoint) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const auto load = [](const std::string& path) {
    const io::Checkpoint c = io::load_checkpoint(path);
    use(c.parameters);
    use(c.optimizer);
  };
  // A file begins with the length of its header, 8 bytes.
  if (bytes.size() >= 8 && bytes[7] == 0) return may_fail([&] { load(file_of(bytes)); });
  may_fail([&] {
    Choices choices(bytes);
    io::Metadata metadata;
    io::TensorMap tensors;
    static const Tensor some = ones({2}).eval();
    while (!choices.empty()) {
      const std::string key = choices.text_until('='), value = choices.text_until('\n');
      if (value == "tensor") {
        tensors.emplace(key, some);
      } else {
        metadata[key] = value;
      }
    }
    metadata.erase("ebb.crc32");
    const io::SafetensorsLayout layout(tensors, "input");
    std::string elements;
    for (const io::Safetensors::Entry& entry : layout.entries) {
      const HostElements host = host_elements(layout.tensors.at(entry.name));
      elements.append(reinterpret_cast<const char*>(host.bytes.data()), host.bytes.size());
    }
    const std::string whole = elements + io::header_text(layout.entries, metadata);
    metadata["ebb.crc32"] = fmt::format("{:08x}", io::crc32_of(std::as_bytes(std::span(whole))));
    const std::string file = io::file_head(layout.entries, metadata, "input") + elements;
    load(file_of({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}));
  });
}
