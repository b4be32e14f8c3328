// Takes the answers to requests for a safetensors file into its part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/get/hub_endpoint.h"
#include "apps/get/part_file.h"
#include "apps/get/transfer_progress.h"

namespace dtn::app {

// The header Content-Range: "bytes 5-9/10", or "bytes */10" of an answer 416.
struct ContentRange {
  std::optional<std::int64_t> first;
  std::optional<std::int64_t> total;
};

// Returns nothing for a text that is none.
std::optional<ContentRange> parse_content_range(std::string_view text);

// Throws DataError for an answer that contradicts itself, and Error if the disk has too little
// room.
class WeightsReceiver final : public HubReceiver {
 public:
  // `name` names the file in messages.
  WeightsReceiver(PartFile& part, std::string name) : part_(part), name_(std::move(name)) {}

  bool begin(const HttpHead& head, const FileFacts& facts) override;
  void receive(std::span<const std::byte> bytes) override;

  // Bytes that have been added to the part.
  std::int64_t received() const { return received_; }
  // True if the server has other content than the part, or cannot go on with it.
  bool is_stale() const { return stale_; }
  // True if the server says that there is nothing behind the part.
  bool is_at_end() const { return at_end_; }

 private:
  void begin_whole(const HttpHead& head, FileFacts facts);
  void begin_rest(const HttpHead& head, FileFacts facts);
  void check_room() const;

  PartFile& part_;
  std::string name_;
  std::int64_t received_ = 0;
  bool stale_ = false, at_end_ = false;
  std::optional<TransferProgress> progress_;
};

}  // namespace dtn::app
