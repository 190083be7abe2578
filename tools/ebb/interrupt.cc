// SPDX-License-Identifier: MIT
#include "interrupt.h"

namespace ebb::program {

namespace {
volatile sig_atomic_t noted = 0;

void note(int) { noted = 1; }

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
}  // namespace

InterruptWatch::InterruptWatch() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second one has its usual effect
  sigemptyset(&action.sa_mask);
  for (std::size_t k = 0; k < kSignals.size(); ++k) {
    sigaction(kSignals[k], nullptr, &before_[k]);
    if (before_[k].sa_handler != SIG_IGN) sigaction(kSignals[k], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t k = 0; k < kSignals.size(); ++k) sigaction(kSignals[k], &before_[k], nullptr);
}

bool InterruptWatch::interrupted() const { return noted != 0; }

}  // namespace ebb::program
