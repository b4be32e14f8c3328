#include "io/safetensors_stream.h"

#include <zlib.h>

#include <algorithm>
#include <string>

namespace dtn {

namespace {
constexpr std::size_t kPendingBytes = std::size_t{1} << 20;
}  // namespace

SafetensorsStream::SafetensorsStream(const std::filesystem::path& path,
                                     std::vector<safetensors::Item> items, StringMap metadata)
    : path_(path),
      items_(std::move(items)),
      metadata_(std::move(metadata)),
      checksums_(items_.size(), 0),
      file_(path) {
  safetensors::check_names(items_, metadata_, path_.string());
  const std::string json = safetensors::make_header(items_, checksums_, metadata_, path_.string());
  const std::uint64_t length = json.size();
  file_.write(std::as_bytes(std::span<const std::uint64_t>(&length, 1)));
  file_.write(json);
  if (!items_.empty()) missing_ = items_.front().nbytes();
  skip_whole();
}

// Moves on to the next tensor that lacks data.
void SafetensorsStream::skip_whole() {
  while (missing_ == 0 && current_ < items_.size()) {
    if (++current_ < items_.size()) missing_ = items_[current_].nbytes();
  }
}

void SafetensorsStream::append(std::span<const std::byte> bytes) {
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  while (!bytes.empty()) {
    DTN_CHECK(current_ < items_.size(), path_.string(), ": more data than its tensors hold");
    const std::size_t n = std::min(
        bytes.size(), static_cast<std::size_t>(std::min<std::uint64_t>(missing_, SIZE_MAX)));
    std::uint32_t& checksum = checksums_[current_];
    checksum = static_cast<std::uint32_t>(
        crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), n));
    missing_ -= n;
    bytes = bytes.subspan(n);
    skip_whole();
  }
  if (pending_.size() >= kPendingBytes) flush();
}

void SafetensorsStream::flush() {
  file_.write(pending_);
  pending_.clear();
}

void SafetensorsStream::commit() {
  DTN_CHECK(current_ == items_.size(), path_.string(), ": less data than its tensors hold");
  flush();
  file_.rewrite(safetensors::kLengthBytes,
                safetensors::make_header(items_, checksums_, metadata_, path_.string()));
  file_.commit();
}

}  // namespace dtn
