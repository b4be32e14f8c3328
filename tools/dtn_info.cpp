// dtn-info: what a model costs, and what there is to choose from.
#include "dtn/app/info_main.h"

int main(int argc, char** argv) { return dtn::app::info_main(argc, argv); }
