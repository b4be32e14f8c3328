// After DTN_NO_CONTRACTION, the compiler fuses no multiplication with an addition in the functions
// of a file. Fusing would round differently from Pillow, which has none, and from one machine to
// another. Private to dtn_data and dtn_tasks.
#pragma once

#if defined(__clang__)
#define DTN_NO_CONTRACTION _Pragma("STDC FP_CONTRACT OFF")
#else
#define DTN_NO_CONTRACTION _Pragma("GCC optimize(\"fp-contract=off\")")
#endif
