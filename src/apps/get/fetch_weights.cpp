#include <chrono>
#include <vector>

#include "apps/get/attempts.h"
#include "apps/get/download.h"
#include "apps/get/part_file.h"
#include "apps/get/weights_receiver.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/safetensors_header.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

// Bytes beyond the furthest ones so far, after which the count of retries begins anew. So the
// attempts end, even with a server that always begins again.
constexpr std::int64_t kProgress = 1 << 20;

class WeightsDownload {
 public:
  WeightsDownload(const HubConnection& hub, const WantedFile& wanted, const fs::path& path)
      : wanted_(wanted), attempts_(hub, wanted), part_(path) {}

  FetchedFile run() {
    if (part_.bytes() > 0) {
      log_info(cat(wanted_.name, ": ", arrived(), " are here from before; going on there"));
    }
    furthest_ = part_.bytes();
    pieces_ = furthest_ > 0;
    const auto start = std::chrono::steady_clock::now();
    std::int64_t bytes = 0;
    do {
      while (!is_whole(bytes)) pieces_ = true;
    } while (!is_verified());
    const double seconds = seconds_since(start);
    log_info(cat(wanted_.name, ": ", bytes_text(static_cast<double>(bytes)), " in ",
                 format_duration(seconds), ", ", rate_text(bytes, seconds), ", ", verdict_));
    FetchedFile fetched{attempts_.address(), part_.facts(), part_.bytes(), part_.sha256()};
    part_.commit();
    return fetched;
  }

 private:
  std::string arrived() const {
    return cat(bytes_text(static_cast<double>(part_.bytes())), " of ",
               bytes_text(static_cast<double>(part_.facts().size.value_or(0))));
  }

  // Headers that ask for the bytes behind those that are here. Where the SHA-256 is known, it tells
  // whether the pieces fit; otherwise the server must compare its ETag.
  std::vector<std::string> headers() const {
    if (part_.bytes() == 0) return {};
    std::vector<std::string> lines = {cat("Range: bytes=", part_.bytes(), "-")};
    const FileFacts& facts = part_.facts();
    if (facts.sha256.empty() && !facts.validator.empty()) {
      lines.push_back("If-Range: " + facts.validator);
    }
    return lines;
  }

  // Makes one attempt, and adds the bytes that it brings. Returns true once all are here.
  bool is_whole(std::int64_t& bytes) {
    const std::int64_t before = part_.bytes();
    HttpResult result;
    bool is_stale = false;
    {
      WeightsReceiver receiver(part_, wanted_.name);
      result = attempts_.request(headers(), receiver);
      if (receiver.is_at_end()) return true;
      is_stale = receiver.is_stale();
      bytes += receiver.received();
    }
    if (is_stale) {
      if (before == 0) {
        throw DataError(cat(wanted_.name, ": the server answers ", result.head.status,
                            " to a request for the whole file; check HF_ENDPOINT and the proxy"));
      }
      log_info(cat(wanted_.name, ": the file on the server is another one now; starting again"));
      part_.restart({});
      return false;
    }
    const bool is_answer = result.head.status == 200 || result.head.status == 206;
    if (result.end == HttpEnd::kDone && is_answer) {
      if (part_.bytes() == part_.facts().size) return true;
      result.end = HttpEnd::kBroken;
      result.problem = "the connection ended early";
    }
    if (part_.bytes() >= furthest_ + kProgress) {
      attempts_.reset();
      furthest_ = part_.bytes();
    }
    attempts_.recover(result, part_.bytes() > 0 ? cat(" after ", arrived()) : "");
    return false;
  }

  // Returns false if the pieces do not fit together, and the download has to begin again.
  bool is_verified() {
    const std::string known = part_.facts().sha256;
    if (!known.empty() && part_.sha256() != known) {
      if (pieces_ && !restarted_) {
        log_warn(
            cat(wanted_.name, ": the pieces do not have the SHA-256 ", known, "; starting again"));
        part_.restart({});
        restarted_ = true;
        return false;
      }
      const std::string found = part_.sha256();
      part_.discard();
      throw DataError(cat(wanted_.name, " arrives damaged: its SHA-256 is ", found, ", but ", known,
                          " was named; nothing was kept. Try again, or another HF_ENDPOINT"));
    }
    try {
      safetensors::read_header(part_.path());
    } catch (const DataError& e) {
      part_.discard();
      throw DataError(
          cat("the server's ", wanted_.name, " cannot be used; nothing was kept. ", e.what()));
    }
    verdict_ =
        known.empty() ? "no checksum was named, so only its size was compared" : "SHA-256 as named";
    return true;
  }

  const WantedFile& wanted_;
  Attempts attempts_;
  PartFile part_;
  std::int64_t furthest_ = 0;  // bytes of the part at the last count
  bool pieces_ = false;        // the bytes come from several attempts
  bool restarted_ = false;     // because the pieces did not fit
  std::string verdict_;
};

}  // namespace

FetchedFile fetch_weights(const HubConnection& hub, const WantedFile& wanted,
                          const fs::path& path) {
  return WeightsDownload(hub, wanted, path).run();
}

}  // namespace dtn::app
