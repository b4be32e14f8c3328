// SIGTERM, SIGINT and SIGUSR1 ask a run to stop at the next safe point.
#pragma once

namespace dtn {

// Installs the handlers. Call once, before the first step. With `second_kills`, a second signal
// kills the process as usual. Pass false if a launcher started the process: it may send several
// signals for one.
void install_stop_signals(bool second_kills = true);
// Returns true once a signal has arrived.
bool stop_requested();

}  // namespace dtn
