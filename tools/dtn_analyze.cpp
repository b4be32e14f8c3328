// dtn-analyze: what is inside a model.
#include "dtn/app/analyze_main.h"

int main(int argc, char** argv) { return dtn::app::analyze_main(argc, argv); }
