// Errors for answers of the Hub that no retry mends.
#pragma once

#include "apps/get/download.h"

namespace dtn::app {

// Throws DataError, or Error for a connection that fails, with the remedy.
[[noreturn]] void fail_download(const HttpResult& result, const HubConnection& hub,
                                const WantedFile& wanted);

}  // namespace dtn::app
