// SPDX-License-Identifier: MIT
#include "ebb/io.h"

#include "bind.h"
#include "paths.h"

namespace ebb::python {

void bind_io(const Api& api) {
  nb::module_ m = api.module.def_submodule("_io", "Files of tensors.");
  m.def("load_npy", of_path(io::load_npy), doc("load_npy"), "path"_a);
  m.def("save_npy", of_path(io::save_npy), doc("save_npy"), "path"_a, "tensor"_a);
  m.def("load_npz", of_path(io::load_npz), doc("load_npz"), "path"_a);
  m.def(
      "save_npz",
      [](const Path& path, const io::TensorMap& tensors, bool compress) {
        io::save_npz(path.string(), tensors, {.compress = compress});
      },
      doc("save_npz"), "path"_a, "tensors"_a, nb::kw_only(), "compress"_a = false);
  m.def("save_safetensors", of_path(io::save_safetensors), doc("save_safetensors"), "path"_a, "tensors"_a,
        "metadata"_a = io::Metadata{});
  m.def("load_safetensors", of_path(io::load_safetensors), "path"_a,
        "All tensors of a safetensors file, as views of the mapped file.");
  nb::class_<io::Safetensors>(
      m, "Safetensors", "An open file of named tensors; only its header is read, a tensor is a view of the mapping.")
      .def(
          "__init__", [](io::Safetensors* self, const Path& path) { new (self) io::Safetensors(path.string()); },
          "path"_a)
      .def_prop_ro("path", &io::Safetensors::path)
      .def_prop_ro("metadata", &io::Safetensors::metadata)
      .def(
          "keys",
          [](const io::Safetensors& f) {
            std::vector<std::string> names;
            for (const auto& e : f.entries()) names.push_back(e.name);
            return names;
          },
          "The names, in the order of their bytes in the file.")
      .def(
          "entries",
          [](const io::Safetensors& f) {
            nb::list all;
            for (const auto& e : f.entries()) all.append(nb::make_tuple(e.name, e.dtype, e.shape, e.begin, e.end));
            return all;
          },
          "(name, dtype as the file calls it, shape, first byte, end) of each tensor.")
      .def("__contains__", &io::Safetensors::contains, "name"_a)
      .def("__getitem__", &io::Safetensors::tensor, "name"_a)
      .def("__len__", [](const io::Safetensors& f) { return f.entries().size(); })
      .def("tensors", &io::Safetensors::tensors, "All of them by name.");
  using io::Checkpoint;
  nb::class_<Checkpoint>(m, "Checkpoint", "All that a training run needs to go on as if it had not stopped.")
      .def(
          "__init__",
          [](Checkpoint* self, io::TensorMap parameters, io::TensorMap optimizer, std::int64_t step,
             io::Metadata metadata) {
            new (self) Checkpoint{.parameters = std::move(parameters),
                                  .optimizer = std::move(optimizer),
                                  .random = random_state(),
                                  .step = step,
                                  .metadata = std::move(metadata)};
          },
          "parameters"_a = io::TensorMap{}, "optimizer"_a = io::TensorMap{}, nb::kw_only(), "step"_a = 0,
          "metadata"_a = io::Metadata{}, "The calling thread's random state is taken along.")
      .def_rw("parameters", &Checkpoint::parameters)
      .def_rw("optimizer", &Checkpoint::optimizer)
      .def_rw("step", &Checkpoint::step)
      .def_rw("metadata", &Checkpoint::metadata)
      .def_prop_rw(
          "random", [](const Checkpoint& c) { return std::make_pair(c.random.seed, c.random.next_operation); },
          [](Checkpoint& c, std::pair<std::uint64_t, std::uint64_t> s) {
            c.random = {s.first, s.second};
          },
          "(seed, next operation), for ebb.set_random_state(*random).")
      .def_prop_rw(
          "loader", [](const Checkpoint& c) { return std::make_tuple(c.loader.seed, c.loader.epoch, c.loader.batch); },
          [](Checkpoint& c, std::tuple<std::uint64_t, std::int64_t, std::int64_t> p) {
            c.loader = {.seed = std::get<0>(p), .epoch = std::get<1>(p), .batch = std::get<2>(p)};
          },
          "The position of a DataLoader.");
  m.def(
      "save_checkpoint",
      [](const Path& path, const io::Checkpoint& checkpoint, bool keep_previous) {
        io::save_checkpoint(path.string(), checkpoint, {.keep_previous = keep_previous});
      },
      "Saves all that a training run needs to go on: ebb.io.save_checkpoint(path, "
      "ebb.io.Checkpoint(model.state_dict(), "
      "optimizer.state(), step=7)). The file appears whole or not at all; keep_previous keeps the one before it beside "
      "it.",
      "path"_a, "checkpoint"_a, "keep_previous"_a = false);
  m.def("previous_checkpoint", of_path(io::previous_checkpoint), doc("previous_checkpoint"), "path"_a);
  m.def("load_checkpoint", of_path(io::load_checkpoint), doc("load_checkpoint"), "path"_a);
}

}  // namespace ebb::python
