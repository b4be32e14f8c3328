// TensorBoard event files: TFRecord frames (length, masked CRC-32C, payload, masked CRC-32C) that
// hold protobuf `Event` messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "io/crc32c.h"
#include "io/posix.h"

namespace dtn {

class EventWriter {
 public:
  // Creates the folder and a new event file in it. A run that resumes after `resumed_step` passes
  // it, so that TensorBoard discards the later points of the earlier file. Throws Error with the
  // path and the system's reason.
  explicit EventWriter(const std::filesystem::path& directory,
                       std::optional<std::int64_t> resumed_step = std::nullopt);
  ~EventWriter();  // flushes
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void add_scalar(std::string_view tag, double value, std::int64_t step);
  // Adds a PNG file as encode_png() makes it.
  void add_png(std::string_view tag, std::span<const std::byte> png, std::int64_t width,
               std::int64_t height, std::int64_t step);
  // Adds a histogram of the finite values, with kHistogramBins equal bins from the minimum to the
  // maximum. Writes nothing if no value is finite.
  static constexpr std::size_t kHistogramBins = 64;
  void add_histogram(std::string_view tag, std::span<const float> values, std::int64_t step);
  // A setting of the run, for TensorBoard's table of runs.
  struct Hyperparameter {
    std::string name;
    std::variant<double, bool, std::string> value;
  };
  void add_hyperparameters(std::span<const Hyperparameter> all);
  // Passes buffered events to the operating system.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void append_record(std::string_view payload);
  // Adds a Summary.Value message, with the fields that `add(writer)` writes after the tag.
  template <class Add>
  void add_value(std::string_view tag, std::int64_t step, Add add);

  std::filesystem::path path_;
  std::string buffer_;
  FileHandle file_;
};

// Returns the CRC-32C, masked as TFRecord requires.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace dtn
