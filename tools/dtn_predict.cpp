// dtn-predict: what a model sees in pictures.
#include "dtn/app/predict_main.h"

int main(int argc, char** argv) { return dtn::app::predict_main(argc, argv); }
