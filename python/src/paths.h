// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/stl/filesystem.h>

#include <filesystem>
#include <string>
#include <utility>

// Files and folders are named by a str or an os.PathLike, such as pathlib.Path.
namespace ebb::python {

using Path = std::filesystem::path;

template <class Result, class... Rest>
auto of_path(Result (*f)(const std::string&, Rest...)) {
  return [f](const Path& path, Rest... rest) { return f(path.string(), std::forward<Rest>(rest)...); };
}

}  // namespace ebb::python
