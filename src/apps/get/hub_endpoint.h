// Requests to the Hugging Face Hub, with its redirects, its token and its headers about files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/get/http.h"
#include "apps/get/url.h"
#include "config/model_cache.h"

namespace dtn::app {

// The server of the Hub, or a mirror of it.
struct HubEndpoint {
  Url url;  // its path has no slash at the end
  std::string token;

  // Returns the address of a file of a model.
  std::string address(const HubModel& model, const std::string& file) const;
};

// Returns the server of HF_ENDPOINT, or else huggingface.co, with the token of HF_TOKEN. Throws
// ConfigError if a variable has a value that cannot be used.
HubEndpoint hub_endpoint();

// True if HF_HUB_OFFLINE forbids connections.
bool is_hub_offline();

// Facts about a file, as the answers give them.
struct FileFacts {
  std::optional<std::int64_t> size;
  std::string sha256;     // 64 hexadecimal digits; empty if it is not known
  std::string etag;       // without quotes; other content has another one
  std::string commit;     // of the repository
  std::string validator;  // header ETag of the last answer, for If-Range; empty if it is weak
};

class HubReceiver {
 public:
  virtual ~HubReceiver() = default;
  // Called once, before the body, with the last answer and the facts of all answers. False ends
  // the transfer.
  virtual bool begin(const HttpHead& head, const FileFacts& facts) = 0;
  virtual void receive(std::span<const std::byte> bytes) = 0;
};

// Requests an address of the endpoint and follows redirects, to http and https alone, and from
// https to https alone. Only the endpoint's own server gets the token. Throws DataError for a
// redirect that is refused.
HttpResult get_from_hub(HttpTransport& transport, const HubEndpoint& endpoint,
                        const std::string& address, const std::vector<std::string>& headers,
                        HubReceiver& receiver);

}  // namespace dtn::app
