// After DTN_NO_CONTRACTION, the compiler fuses no multiplication with an addition in the functions
// of a file. Fusing would round differently from Pillow, which has none. Private to dtn_data.
#pragma once

#if defined(__clang__)
#define DTN_NO_CONTRACTION _Pragma("STDC FP_CONTRACT OFF")
#else
#define DTN_NO_CONTRACTION _Pragma("GCC optimize(\"fp-contract=off\")")
#endif
