// Draws runs beside each other; see include/dtn/app/plot_main.h.
#include "dtn/app/plot_main.h"

int main(int argc, char** argv) { return dtn::app::plot_main(argc, argv); }
