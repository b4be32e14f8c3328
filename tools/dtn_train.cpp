// dtn-train: trains a model as a config says.
#include "dtn/app/train_main.h"

int main(int argc, char** argv) { return dtn::app::train_main(argc, argv); }
