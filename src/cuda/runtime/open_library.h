// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/error.h"

namespace ebb::cuda {

// A shared library that is opened on demand: from the system's search path, the folders of the CUDA toolkit, or those
// of PyPI's nvidia packages next to the folder Ebb itself was loaded from.
class OpenLibrary {
 public:
  // The first of `names` that is found. `cure` says what to install. Throws an Error naming all of that if none is.
  static OpenLibrary open(const std::string& what, const std::vector<std::string>& names, const std::string& cure);
  // As above, but empty if there is none.
  static OpenLibrary try_open(const std::vector<std::string>& names);

  explicit operator bool() const { return handle_ != nullptr; }
  // Throws an Error if the library has no such function: it is too old.
  void* function(const char* name) const;
  void* try_function(const char* name) const;  // null in that case
  // Makes the library call `other` wherever it calls the function `name` of the C library.
  void redirect(const char* name, void* other) const;

 private:
  void* handle_ = nullptr;  // never closed: its functions stay in tables
  std::string path_;
};

// The functions of a library that may be missing, or too old to have them, which counts as missing. Tests substitute
// tables of their own.
template <class Table>
class OptionalLibrary {
 public:
  // fill(library, table) throws an Error if a function is missing; `variable`=0 in the environment: treated as missing.
  using Fill = void (*)(const OpenLibrary& library, Table& table);
  OptionalLibrary(const char* variable, std::vector<std::string> names, Fill fill)
      : variable_(variable), names_(std::move(names)), fill_(fill) {}

  const Table* get() {
    if (is_installed_.load(std::memory_order_acquire)) return installed_.load(std::memory_order_acquire);
    static const Table* const table = open();  // one OptionalLibrary per Table
    return table;
  }
  void install(const Table* table) {
    installed_.store(table, std::memory_order_release);
    is_installed_.store(true, std::memory_order_release);
  }

 private:
  const Table* open() const {
    const char* const wanted = std::getenv(variable_);
    if (wanted && std::string_view(wanted) == "0") return nullptr;
    const OpenLibrary library = OpenLibrary::try_open(names_);
    if (!library) return nullptr;
    auto* const t = new Table;
    try {
      fill_(library, *t);
    } catch (const Error&) {
      delete t;
      return nullptr;
    }
    return t;
  }

  const char* const variable_;
  const std::vector<std::string> names_;
  const Fill fill_;
  std::atomic<bool> is_installed_{false};
  std::atomic<const Table*> installed_{nullptr};
};

}  // namespace ebb::cuda
