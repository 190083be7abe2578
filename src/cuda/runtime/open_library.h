// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace ebb::cuda {

// A shared library that is looked for when it is needed: where the system looks, in the folders of the CUDA toolkit,
// and in those of PyPI's nvidia packages beside the folder Ebb itself was loaded from.
class OpenLibrary {
 public:
  // The first of `names` that is found. `cure` says what to install. An Error naming all of that where none is.
  static OpenLibrary open(const std::string& what, const std::vector<std::string>& names, const std::string& cure);
  // As above, but empty where there is none.
  static OpenLibrary try_open(const std::vector<std::string>& names);

  explicit operator bool() const { return handle_ != nullptr; }
  // An Error where the library has no such function: it is too old.
  void* function(const char* name) const;
  // Has the library call `other` wherever it calls the function `name` of the C library.
  void redirect(const char* name, void* other) const;

 private:
  void* handle_ = nullptr;  // never closed: its functions are in tables for good
  std::string path_;
};

}  // namespace ebb::cuda
