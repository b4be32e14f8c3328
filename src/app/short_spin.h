// How long idle threads of libgomp spin before they sleep.
#pragma once

namespace dtn {

// libgomp lets idle threads spin for a millisecond or more before they sleep. On a machine that is
// busy with something else, loader threads included, they then burn the very time the work is
// waiting for. A program that calls this function has GOMP_SPINCOUNT=3000 in its environment from
// the moment libgomp reads it, which is before main, unless the environment chooses itself (by
// GOMP_SPINCOUNT or OMP_WAIT_POLICY). The call itself does nothing; it brings in what does.
void spin_briefly();

}  // namespace dtn
