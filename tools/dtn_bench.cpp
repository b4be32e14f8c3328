// dtn-bench: how fast training, evaluation, data, normalizers, matrix products and the kernels of a
// training step run here.
#include "dtn/app/bench_main.h"

int main(int argc, char** argv) { return dtn::app::bench_main(argc, argv); }
