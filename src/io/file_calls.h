// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace ebb::io {

// The system calls every writer goes through, as a table: a test substitutes its own functions to simulate full disks,
// short writes and read-only folders.
struct FileCalls {
  int (*open)(const char* path, int flags);
  ssize_t (*write)(int descriptor, const void* data, std::size_t bytes);
  int (*fsync)(int descriptor);
  int (*link)(const char* from, const char* to);
  int (*rename)(const char* from, const char* to);
};

constexpr FileCalls kSystemCalls{
    [](const char* path, int flags) { return ::open(path, flags, 0666); },  // the user's umask decides
    ::write, ::fsync, ::link, std::rename};
inline FileCalls file_calls = kSystemCalls;

}  // namespace ebb::io
