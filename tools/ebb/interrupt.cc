#include "interrupt.h"

#include <signal.h>

#include <initializer_list>

namespace ebb::program {

namespace {
volatile sig_atomic_t noted = 0;

void note(int) { noted = 1; }
}  // namespace

InterruptWatch::InterruptWatch() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second one has its usual effect
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

InterruptWatch::~InterruptWatch() {
  for (int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
}

bool InterruptWatch::interrupted() const { return noted != 0; }

}  // namespace ebb::program
