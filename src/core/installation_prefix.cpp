// The only function of its file, so that the linker omits it where a program defines it itself.
#include "core/installed.h"

namespace dtn::detail {

const char* installation_prefix() { return ""; }

}  // namespace dtn::detail
