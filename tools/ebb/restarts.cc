// SPDX-License-Identifier: MIT
#include "restarts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "core/format_error.h"
#include "exit.h"
#include "interrupt.h"
#include "run_folder.h"

namespace ebb::program {
namespace {

using Words = std::vector<std::string>;

Words own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  require(!all.empty(), Error::Kind::io, "train: --restart-on-failure needs /proc/self/cmdline, which cannot be read");
  Words words;
  std::istringstream in(all);
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

// The command line of the ranks: the words without those for this process.
Words words_of_ranks(const Words& own) {
  Words words;
  for (std::size_t k = 1; k < own.size(); ++k) {
    const std::string name = own[k].substr(0, own[k].find('='));
    if (name == "--launcher" || name == "--restart-on-failure") {
      if (name == own[k]) ++k;  // its value is the next word
    } else {
      words.push_back(own[k]);
    }
  }
  return words;
}

pid_t start(const Words& words) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  require(child >= 0, Error::Kind::io, "train: no process can be started");
  if (child > 0) return child;
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // ranks must not outlive the process that would restart them
#endif
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "ebb: %s cannot be started\n", argv[0]);
  ::_exit(127);
}

// The exit code; a signal to this process is passed on.
int wait_for(pid_t child, const InterruptWatch& watch) {
  bool told = false;
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (watch.interrupted() && !told) {
      told = true;
      ::kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

void train_with_restarts(const Restarts& restarts, const std::string& folder) {
  std::array<char, 4096> path{};
  require(::readlink("/proc/self/exe", path.data(), path.size() - 1) > 0, Error::Kind::io,
          "train: --restart-on-failure cannot find the program it belongs to");
  Words before;
  std::istringstream launcher(restarts.launcher);
  before.assign(std::istream_iterator<std::string>(launcher), {});
  before.emplace_back(path.data());
  Words words = words_of_ranks(own_words());
  const InterruptWatch watch;
  for (int restarted = 0;; ++restarted) {
    Words command = before;
    command.insert(command.end(), words.begin(), words.end());
    const int code = wait_for(start(command), watch);
    if (code == kOk) return;
    if (watch.interrupted() || code == kInterrupted)
      throw Interrupted(fmt::format("stopped; `ebb train --resume {}` goes on", folder));
    require(code != kWrongUsage && code != 127, "train: it could not be started, see above");
    require(restarted < restarts.most, "train: failed with code {} after {} restarts; {} has the last checkpoint", code,
            restarted, folder);
    // Before the first checkpoint there is nothing to resume.
    if (RunFolder(folder, RunFolder::Use::reads).holds_checkpoint()) words = {"train", "--resume", folder};
    std::fprintf(stderr, "ebb: training failed with code %d; restart %d of %d\n", code, restarted + 1, restarts.most);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // lets the remaining ranks end
  }
}

}  // namespace ebb::program
