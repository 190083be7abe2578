// SPDX-License-Identifier: MIT
#pragma once
#include <stop_token>

#include "ebb/stop.h"

namespace ebb {

const std::stop_token* current_stop_token();  // of this thread's scope; null if none
void throw_if_stopped(const std::stop_token* token);

// Throws if this thread's computation should end: because of its token, or because the host says so.
void check_stop();

// A host language may want to interrupt a computation (Python's Ctrl-C): the thread that called us calls this now and
// then; it throws to interrupt.
void set_host_interrupt(void (*check)());  // once, before the first computation

}  // namespace ebb
