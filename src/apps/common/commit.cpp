// In a file of its own because it is recompiled after each commit.
#include "apps/common/program.h"
#include "dtn_commit.h"

namespace dtn {

const char* commit() { return DTN_COMMIT; }

}  // namespace dtn
