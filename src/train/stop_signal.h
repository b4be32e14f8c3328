// SIGTERM, SIGINT and SIGUSR1 ask a run to stop at the next safe point.
#pragma once

namespace dtn {

// Installs the handlers. Call it once, before the first step. A second signal kills as usual,
// unless a launcher stands between the user and this process, which may send several for one.
void install_stop_signals(bool second_kills = true);
// True once a signal has arrived.
bool stop_requested();

}  // namespace dtn
