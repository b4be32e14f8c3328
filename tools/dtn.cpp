// dtn: every command in one program. dtn-train and the other commands are links to it.
#include "apps/common/commands.h"

int main(int argc, char** argv) { return dtn::app::dtn_main(argc, argv); }
