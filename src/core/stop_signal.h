// SIGTERM, SIGINT and SIGUSR1 ask a run to stop at the next safe point.
//
// One thread takes these signals, and all other threads block them. Matrix kernels of oneDNN 2.6
// use the stack pointer as a general register, which then points into the heap. A signal handler on
// such a thread would write its frame there.
#pragma once

namespace dtn {

// Starts the thread that takes the signals, which still kill the process. Call it before any other
// thread starts: new threads block the signals because this thread does. Later calls do nothing.
void watch_stop_signals();
// From now on, the signals ask for a stop. Calls watch_stop_signals(). Threads that started earlier
// run a handler. With `second_kills`, a second signal of the same kind kills the process. Pass
// false if a launcher started the process: it may send several signals for one.
void install_stop_signals(bool second_kills = true);
// Returns true once a signal has arrived.
bool stop_requested();

}  // namespace dtn
