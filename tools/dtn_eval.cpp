// dtn-eval: accuracy of a checkpoint or a weights file, on its data set or on a robustness suite,
// or logits for given inputs.
#include "dtn/app/eval_main.h"

int main(int argc, char** argv) { return dtn::app::eval_main(argc, argv); }
