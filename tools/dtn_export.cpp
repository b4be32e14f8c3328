// dtn-export: a trained model as an ONNX file.
#include "dtn/app/export_main.h"

int main(int argc, char** argv) { return dtn::app::export_main(argc, argv); }
