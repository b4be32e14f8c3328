// dtn-data: packs a data set into one file, checks every image of one, describes one, makes corrupted
// images, or makes Long ListOps.
#include "dtn/app/data_main.h"

int main(int argc, char** argv) { return dtn::app::data_main(argc, argv); }
