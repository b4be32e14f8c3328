// Alone in its file, so that the linker leaves it out where a program has a definition of its own.
#include "core/installed.h"

namespace dtn::detail {

const char* installation_prefix() { return ""; }

}  // namespace dtn::detail
