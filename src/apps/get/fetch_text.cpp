#include <string_view>

#include "apps/get/attempts.h"
#include "apps/get/download.h"
#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"
#include "io/sha256.h"

namespace dtn::app {
namespace {

// Collects a small file in memory.
class TextReceiver final : public HubReceiver {
 public:
  TextReceiver(std::string file, std::int64_t max_bytes)
      : file_(std::move(file)), max_bytes_(max_bytes) {}

  bool begin(const HttpHead& head, const FileFacts& facts) override {
    facts_ = facts;
    const auto length = parse_number<std::int64_t>(head.header("content-length"));
    if (length && *length > max_bytes_) fail_too_long();
    return head.status == 200;
  }
  void receive(std::span<const std::byte> bytes) override {
    if (static_cast<std::int64_t>(text_.size() + bytes.size()) > max_bytes_) fail_too_long();
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  const std::string& text() const { return text_; }
  const FileFacts& facts() const { return facts_; }
  // Returns what is wrong with a text that has arrived; empty if it is whole.
  std::string fault(const std::string& sha256) const {
    if (facts_.size && *facts_.size != static_cast<std::int64_t>(text_.size())) {
      return cat("it has ", text_.size(), " bytes instead of ", *facts_.size);
    }
    if (!facts_.sha256.empty() && facts_.sha256 != sha256) return "its SHA-256 is wrong";
    return "";
  }

 private:
  [[noreturn]] void fail_too_long() const {
    throw DataError(cat(file_, ": the server sends more than the ",
                        bytes_text(static_cast<double>(max_bytes_)),
                        " allowed for a file of its kind; check HF_ENDPOINT and the proxy"));
  }

  std::string file_;
  std::int64_t max_bytes_;
  std::string text_;
  FileFacts facts_;
};

}  // namespace

std::string fetch_text(const HubConnection& hub, const WantedFile& wanted, std::int64_t max_bytes,
                       FetchedFile& fetched) {
  Attempts attempts(hub, wanted);
  for (;;) {
    TextReceiver receiver(wanted.name, max_bytes);
    const HttpResult result = attempts.request({}, receiver);
    if (result.end != HttpEnd::kDone || result.head.status != 200) {
      attempts.recover(result, "");
      continue;
    }
    const std::string& text = receiver.text();
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text.data(), text.size())));
    fetched = {attempts.address(), receiver.facts(), static_cast<std::int64_t>(text.size()),
               hash.hex()};
    if (const std::string fault = receiver.fault(fetched.sha256); !fault.empty()) {
      throw DataError(cat(wanted.name, " of ", wanted.model.name(), " arrives damaged: ", fault,
                          "; try again, or another HF_ENDPOINT"));
    }
    return text;
  }
}

}  // namespace dtn::app
