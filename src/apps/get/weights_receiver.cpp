#include "apps/get/weights_receiver.h"

#include <filesystem>
#include <system_error>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {
namespace {

std::optional<std::int64_t> byte_count(std::string_view text) {
  const auto number = parse_number<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const std::size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || slash == std::string_view::npos) return {};
  const std::string_view range = text.substr(kUnit.size(), slash - kUnit.size());
  ContentRange parsed{.first = {}, .total = byte_count(text.substr(slash + 1))};
  if (range == "*") return parsed;
  parsed.first = byte_count(range.substr(0, range.find('-')));
  return parsed.first ? std::optional(parsed) : std::nullopt;
}

bool WeightsReceiver::begin(const HttpHead& head, const FileFacts& facts) {
  const std::string encoding = lowered(head.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity") {
    throw DataError(cat(name_, ": the server packs the file (", encoding,
                        "), though nobody asked for it; check HF_ENDPOINT and the proxy"));
  }
  if (head.status == 200) begin_whole(head, facts);
  if (head.status == 206) begin_rest(head, facts);
  if (head.status == 416) {
    const auto range = parse_content_range(head.header("content-range"));
    FileFacts served = facts;
    if (!served.size && range) served.size = range->total;
    at_end_ = part_.belongs_to(served) && part_.bytes() == part_.facts().size;
    stale_ = !at_end_;
  }
  if (stale_ || (head.status != 200 && head.status != 206)) return false;
  check_room();
  progress_.emplace(name_, *part_.facts().size, part_.bytes());
  return true;
}

void WeightsReceiver::begin_whole(const HttpHead& head, FileFacts facts) {
  const auto length = byte_count(head.header("content-length"));
  if (facts.size && length && facts.size != length) {
    throw DataError(cat(name_, ": the server says that the file has ", *facts.size,
                        " bytes, but sends ", *length, "; check HF_ENDPOINT and the proxy"));
  }
  if (!facts.size) facts.size = length;
  if (!facts.size) {
    throw DataError(cat(name_,
                        ": the server does not say how long the file is; use another "
                        "HF_ENDPOINT"));
  }
  if (part_.bytes() > 0) {
    log_info(cat(name_, ": the server does not go on where the download ended; starting again"));
  }
  part_.restart(facts);
}

void WeightsReceiver::begin_rest(const HttpHead& head, FileFacts facts) {
  const auto range = parse_content_range(head.header("content-range"));
  if (!facts.size && range) facts.size = range->total;
  stale_ = !range || range->first != part_.bytes() || !part_.belongs_to(facts) ||
           part_.facts().size <= part_.bytes();
}

void WeightsReceiver::check_room() const {
  const std::int64_t missing = *part_.facts().size - part_.bytes();
  std::error_code none;
  const auto space = std::filesystem::space(part_.path().parent_path(), none);
  if (none || static_cast<std::uint64_t>(missing) <= space.available) return;
  throw Error(cat(name_, " needs ", bytes_text(static_cast<double>(missing)), ", but ",
                  part_.path().parent_path().string(), " has room for ",
                  bytes_text(static_cast<double>(space.available)),
                  "; make room, or choose another disk with DTN_CACHE or --output"));
}

void WeightsReceiver::receive(std::span<const std::byte> bytes) {
  const std::int64_t left = *part_.facts().size - part_.bytes();
  if (static_cast<std::int64_t>(bytes.size()) > left) {
    throw DataError(cat(name_, ": the server sends more than the ", *part_.facts().size,
                        " bytes that it names; check HF_ENDPOINT and the proxy"));
  }
  part_.append(bytes);
  received_ += static_cast<std::int64_t>(bytes.size());
  progress_->update(part_.bytes());
}

}  // namespace dtn::app
