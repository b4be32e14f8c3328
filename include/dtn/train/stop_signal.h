// SIGTERM and SIGINT ask a run to stop at the next safe point; a second one kills as usual.
#pragma once

namespace dtn {

// Installs the handlers. Call it once, before the first step.
void install_stop_signals();
// True once a signal has arrived.
bool stop_requested();

}  // namespace dtn
