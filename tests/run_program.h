#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

// A program that runs beside the test, its output caught in files of no name.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& words) {
    for (int& end : output_) {
      char name[] = "/tmp/ebb-test-output-XXXXXX";
      end = ::mkstemp(name);
      if (end < 0) throw std::runtime_error("no temporary file");
      ::unlink(name);
    }
    std::vector<char*> argv;
    for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
    argv.push_back(nullptr);
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("fork failed");
    if (id_ == 0) {
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, 0);
      ::dup2(output_[0], 1);
      ::dup2(output_[1], 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~RunningProgram() {
    if (id_ > 0) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
    for (int end : output_) ::close(end);
  }
  RunningProgram(const RunningProgram&) = delete;

  void send(int signal) const {
    if (id_ > 0) ::kill(id_, signal);
  }
  // Its exit code, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return text(output_[0]); }
  std::string err() const { return text(output_[1]); }

 private:
  static std::string text(int file) {
    std::string all;
    std::array<char, 4096> part;
    for (off_t at = 0;;) {
      const ssize_t n = ::pread(file, part.data(), part.size(), at);
      if (n <= 0) return all;
      all.append(part.data(), static_cast<std::size_t>(n));
      at += n;
    }
  }

  std::array<int, 2> output_{};
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
