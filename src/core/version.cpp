#include "dtn/core/version.h"

namespace dtn {

const char* version() { return DTN_VERSION; }

}  // namespace dtn
