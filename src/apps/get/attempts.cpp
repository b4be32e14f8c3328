#include "apps/get/attempts.h"

#include "apps/get/hub_errors.h"
#include "apps/get/stopped.h"

namespace dtn::app {

Attempts::Attempts(const HubConnection& hub, const WantedFile& wanted)
    : hub_(hub),
      wanted_(wanted),
      address_(hub.endpoint.address(wanted.model, wanted.name)),
      retries_(wanted.name, hub.retries) {}

HttpResult Attempts::request(const std::vector<std::string>& headers, HubReceiver& receiver) {
  HttpResult result = get_from_hub(hub_.transport, hub_.endpoint, address_, headers, receiver);
  if (result.end != HttpEnd::kUnreachable) reached_ = true;
  return result;
}

// A server that was never reached will hardly be so in a minute; a missing network is said at once.
void Attempts::recover(const HttpResult& result, const std::string& state) {
  if (result.end == HttpEnd::kStopped) throw StoppedError(cat(wanted_.name, ": stopped", state));
  if (!is_temporary(result) || !reached_) fail_download(result, hub_, wanted_);
  retries_.wait(result, state);
}

}  // namespace dtn::app
