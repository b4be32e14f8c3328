// dtn-sweep: trains every variant of an experiment from every seed and tabulates the results.
#include "dtn/app/sweep_main.h"

int main(int argc, char** argv) { return dtn::app::sweep_main(argc, argv); }
