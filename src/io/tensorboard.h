// TensorBoard event files: TFRecord frames (length, masked CRC-32C, payload, masked CRC-32C) that
// hold protobuf `Event` messages. Scalars only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/crc32c.h"

namespace dtn {

class EventWriter {
 public:
  // Creates the folder and a new event file in it. A run that goes on after `resumed_step` passes
  // it, so that TensorBoard discards the later points of the earlier file.
  // Throws Error naming the path and the system's reason.
  explicit EventWriter(const std::filesystem::path& directory,
                       std::optional<std::int64_t> resumed_step = std::nullopt);
  ~EventWriter();  // flushes
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void add_scalar(std::string_view tag, double value, std::int64_t step);
  // Hands buffered events to the system.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void append_record(std::string_view payload);

  std::filesystem::path path_;
  std::string buffer_;
  int fd_ = -1;
};

// CRC-32C and the rotation that TFRecord applies to it.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace dtn
