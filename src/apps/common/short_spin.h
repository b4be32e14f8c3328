// Spin time of idle libgomp threads before they sleep.
#pragma once

namespace dtn {

// By default, idle libgomp threads spin for a millisecond or more before they sleep. On a busy
// machine, this takes time from the threads that have work, such as loader threads. A program that
// calls this function has GOMP_SPINCOUNT=3000 in its environment when libgomp reads it before main,
// unless the environment already sets GOMP_SPINCOUNT or OMP_WAIT_POLICY. The call itself does
// nothing; it makes the linker include the code that sets the variable.
void spin_briefly();

}  // namespace dtn
