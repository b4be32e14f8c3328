// One HTTP request and its answer. Only http_curl.cpp depends on libcurl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtn::app {

// Status and headers of an answer.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case

  // Returns an empty text for a header that is absent.
  std::string header(const std::string& name) const;
};

// Outcome of a request.
enum class HttpEnd {
  kDone,         // an answer has arrived, whatever its status
  kStopped,      // a signal asks the program to stop
  kUnreachable,  // no connection to the server
  kBroken,       // the connection ended early
  kFailed,       // another attempt would fail, too, as for an invalid certificate
};

struct HttpResult {
  HttpEnd end = HttpEnd::kDone;
  HttpHead head;
  std::string problem;                   // empty for kDone
  std::string redirect;                  // absolute address, of an answer that redirects
  std::optional<std::int64_t> wait_for;  // seconds, from Retry-After
};

// Takes the body of an answer of status 2xx or 416.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  // Called once, before the body. False ends the transfer, which is then kDone.
  virtual bool begin(const HttpHead& head) = 0;
  virtual void receive(std::span<const std::byte> bytes) = 0;
};

class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // Requests `url`, http or https, with headers such as "Range: bytes=5-". Does not follow
  // redirects. Passes on exceptions of `receiver`.
  virtual HttpResult get(const std::string& url, const std::vector<std::string>& headers,
                         HttpReceiver& receiver) = 0;
};

// Returns the transport of libcurl. Without libcurl, returns null and says why in `problem`.
std::unique_ptr<HttpTransport> curl_transport(std::string& problem);

}  // namespace dtn::app
