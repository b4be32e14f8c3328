#include "apps/get/http.h"
#include "core/text.h"

#ifdef DTN_HAVE_CURL

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "apps/get/curl_library.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/version.h"

namespace dtn::app {
namespace {

constexpr std::int64_t kMaxIgnoredBody = 1 << 18;        // bytes of an answer that is no success
constexpr std::size_t kMaxHeaders = 200;                 // of one answer
constexpr long kConnectSeconds = 30, kIdleSeconds = 60;  // before a connection counts as broken

// The state of one request, which libcurl's callbacks share.
struct Transfer {
  HttpReceiver& receiver;
  HttpResult result{};
  bool begun = false;
  bool enough = false;  // the rest of the body is not wanted
  std::int64_t ignored = 0;
  std::exception_ptr error{};

  bool is_wanted() const {
    const int status = result.head.status;
    return (status >= 200 && status < 300) || status == 416;
  }
  // Begins the body unless that has happened. Returns false if the receiver does not want it.
  bool begin() {
    if (!begun) enough = !receiver.begin(result.head);
    begun = true;
    return !enough;
  }
};

// Runs a part of a callback. An exception must not pass through libcurl; it ends the transfer.
template <class Part>
bool guarded(Transfer& transfer, Part&& part) {
  try {
    return part();
  } catch (...) {
    transfer.error = std::current_exception();
    return false;
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::size_t take_header(char* data, std::size_t, std::size_t bytes, void* state) {
  auto& transfer = *static_cast<Transfer*>(state);
  HttpHead& head = transfer.result.head;
  const std::string_view line = trimmed({data, bytes});
  const bool taken = guarded(transfer, [&] {
    if (line.starts_with("HTTP/")) {  // the first line of an answer, maybe after "100 Continue"
      head = {};
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) return false;
      head.status = parse_number<int>(line.substr(space + 1, 3)).value_or(0);
      return true;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    if (head.headers.size() >= kMaxHeaders) return false;
    head.headers[lowered(std::string(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
    return true;
  });
  return taken ? bytes : 0;
}

std::size_t take_body(char* data, std::size_t, std::size_t bytes, void* state) {
  auto& transfer = *static_cast<Transfer*>(state);
  const bool taken = guarded(transfer, [&] {
    if (!transfer.is_wanted()) {
      transfer.ignored += static_cast<std::int64_t>(bytes);
      transfer.enough = transfer.ignored > kMaxIgnoredBody;
      return !transfer.enough;
    }
    if (!transfer.begin()) return false;
    transfer.receiver.receive(std::as_bytes(std::span(data, bytes)));
    return true;
  });
  return taken ? bytes : 0;
}

// Called at least once a second.
int check_stop(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return stop_requested(); }

HttpEnd end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK: return HttpEnd::kDone;
    case CURLE_ABORTED_BY_CALLBACK: return HttpEnd::kStopped;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: return HttpEnd::kUnreachable;
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return HttpEnd::kBroken;
    default: return HttpEnd::kFailed;
  }
}

class CurlTransport final : public HttpTransport {
 public:
  CurlTransport() : handle_(curl().easy_init(), curl().easy_cleanup) {
    DTN_CHECK(handle_, "libcurl does not start");
  }

  HttpResult get(const std::string& url, const std::vector<std::string>& headers,
                 HttpReceiver& receiver) override {
    Transfer transfer{receiver};
    std::unique_ptr<curl_slist, void (*)(curl_slist*)> list(nullptr, curl().slist_free_all);
    for (const std::string& header : headers) {
      curl_slist* longer = curl().slist_append(list.get(), header.c_str());
      if (!longer) throw std::bad_alloc();
      (void)list.release();
      list.reset(longer);
    }
    std::string message(CURL_ERROR_SIZE, '\0');
    curl().easy_reset(handle_.get());  // keeps the connections
    set_options(transfer, message.data());
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, list.get());
    const CURLcode code = curl().easy_perform(handle_.get());
    if (transfer.error) std::rethrow_exception(transfer.error);
    finish(transfer, code, message.c_str());
    return std::move(transfer.result);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl().easy_setopt(handle_.get(), option, value);
    DTN_CHECK(code == CURLE_OK, "libcurl: option ", option, ": ", curl().easy_strerror(code));
  }

  void set_options(Transfer& transfer, char* message) {
    set(CURLOPT_ERRORBUFFER, message);
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // the answers of a proxy
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kIdleSeconds);
    set(CURLOPT_USERAGENT, user_agent_.c_str());
    // curl's own program reads this variable; the library does not.
    if (const char* file = std::getenv("SSL_CERT_FILE"); file && *file) set(CURLOPT_CAINFO, file);
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, check_stop);
  }

  void finish(Transfer& transfer, CURLcode code, const char* message) {
    HttpResult& result = transfer.result;
    result.end = transfer.enough ? HttpEnd::kDone : end_of(code);
    if (result.end != HttpEnd::kDone) {
      result.problem = *message ? message : curl().easy_strerror(code);
      return;
    }
    if (transfer.is_wanted()) transfer.begin();  // an empty body
    const char* redirect = nullptr;
    if (curl().easy_getinfo(handle_.get(), CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK &&
        redirect) {
      result.redirect = redirect;
    }
    curl_off_t seconds = 0;
    if (!result.head.header("retry-after").empty() &&
        curl().easy_getinfo(handle_.get(), CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK) {
      result.wait_for = seconds;
    }
  }

  std::unique_ptr<CURL, void (*)(CURL*)> handle_;
  std::string user_agent_ = cat("dtn/", version());
};

}  // namespace

std::unique_ptr<HttpTransport> curl_transport(std::string& problem) {
  try {
    return std::make_unique<CurlTransport>();
  } catch (const ConfigError& e) {
    problem = e.what();
    return nullptr;
  }
}

}  // namespace dtn::app

#else

namespace dtn::app {

std::unique_ptr<HttpTransport> curl_transport(std::string& problem) {
  problem =
      "this build of dtn has no libcurl to fetch it with (install libcurl4-openssl-dev and build "
      "again)";
  return nullptr;
}

}  // namespace dtn::app

#endif
