// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

// A program that runs concurrently with the test. Its standard output comes through a pipe, so that a test can wait for
// a word of it; its standard error goes to an unnamed file.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& words) {
    char name[] = "/tmp/ebb-test-errors-XXXXXX";
    errors_ = ::mkstemp(name);
    int ends[2];
    if (errors_ < 0 || ::pipe(ends) != 0) throw std::runtime_error("no temporary file or no pipe");
    ::unlink(name);
    std::vector<char*> argv;
    for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
    argv.push_back(nullptr);
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("fork failed");
    if (id_ == 0) {
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      ::dup2(ends[1], 1);
      ::dup2(errors_, 2);
      for (int end : {ends[0], ends[1], errors_}) ::close(end);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
    ::fcntl(output_, F_SETFD, FD_CLOEXEC);
    ::fcntl(errors_, F_SETFD, FD_CLOEXEC);
  }
  ~RunningProgram() {
    if (id_ > 0) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
    ::close(output_);
    ::close(errors_);
  }
  RunningProgram(const RunningProgram&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const {
    if (id_ > 0) ::kill(id_, signal);
  }
  // Reads until the text was printed; false if the program ended without it.
  bool wait_for(const std::string& text) {
    while (out_.find(text) == std::string::npos) {
      if (!read_more()) return false;
    }
    return true;
  }
  // Its exit code, or 128 + the signal that ended it.
  int wait() {
    while (read_more()) {
    }
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& out() const { return out_; }
  std::string err() const {
    std::string all;
    std::array<char, 4096> part;
    for (;;) {
      const ssize_t n = ::pread(errors_, part.data(), part.size(), static_cast<off_t>(all.size()));
      if (n <= 0) return all;
      all.append(part.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  bool read_more() {
    std::array<char, 4096> part;
    const ssize_t n = ::read(output_, part.data(), part.size());
    if (n > 0) out_.append(part.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  int output_ = -1, errors_ = -1;
  std::string out_;
  pid_t id_ = -1;
};

struct ProgramResult {
  int code;
  std::string out, err;
};

inline ProgramResult run_program(const std::vector<std::string>& words) {
  RunningProgram program(words);
  const int code = program.wait();
  return {code, program.out(), program.err()};
}

#ifdef EBB_PROGRAM
// The program `ebb` of this build.
inline ProgramResult run_ebb(std::vector<std::string> words) {
  words.insert(words.begin(), EBB_PROGRAM);
  return run_program(words);
}
#endif
