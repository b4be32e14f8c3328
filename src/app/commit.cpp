// Alone, as it is compiled again with each commit.
#include "app/program.h"
#include "dtn_commit.h"

namespace dtn {

const char* commit() { return DTN_COMMIT; }

}  // namespace dtn
