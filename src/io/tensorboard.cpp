#include "io/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <system_error>

#include "dtn/core/log.h"
#include "io/posix.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimple = 2;
constexpr int kSessionLogStatus = 1;
constexpr std::uint64_t kSessionLogStart = 1;

// Protobuf wire types.
constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void put_key(std::string& out, int field, int wire_type) {
  put_varint(out, static_cast<std::uint64_t>(field << 3 | wire_type));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// The part all events share; a protobuf message is the concatenation of its fields.
std::string event(std::int64_t step) {
  std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string out;
  put_key(out, kEventWallTime, kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(now.count()));
  put_key(out, kEventStep, kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

// TensorBoard reads the files of a folder in the order of their names, so the name opens with time.
fs::path new_event_file(const fs::path& directory) {
  static std::atomic<unsigned> count{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  std::string seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count());
  seconds.insert(0, seconds.size() < 10 ? 10 - seconds.size() : 0, '0');
  return directory / cat("events.out.tfevents.", seconds, ".", host.data(), ".", ::getpid(), ".",
                         count.fetch_add(1));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

EventWriter::EventWriter(const fs::path& directory, std::optional<std::int64_t> resumed_step) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw_errno("create", directory, error.value());
  path_ = new_event_file(directory);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_errno("create", path_);
  std::string version = event(0);
  put_bytes(version, kEventFileVersion, "brain.Event:2");
  append_record(version);
  if (resumed_step) {
    std::string start;
    put_key(start, kSessionLogStatus, kVarint);
    put_varint(start, kSessionLogStart);
    std::string restarted = event(*resumed_step + 1);
    put_bytes(restarted, kEventSessionLog, start);
    append_record(restarted);
  }
  try {
    flush();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const std::exception& e) {
    log_warn(e.what());
  }
  ::close(fd_);
}

void EventWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  std::string scalar;
  put_bytes(scalar, kValueTag, tag);
  put_key(scalar, kValueSimple, kFixed32);
  put_little_endian(scalar, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary;
  put_bytes(summary, kSummaryValue, scalar);
  std::string message = event(step);
  put_bytes(message, kEventSummary, summary);
  append_record(message);
  if (buffer_.size() >= kFlushBytes) flush();
}

void EventWriter::append_record(std::string_view payload) {
  std::string length;
  put_little_endian(length, static_cast<std::uint64_t>(payload.size()));
  buffer_ += length;
  put_little_endian(buffer_, masked_crc32c(bytes_of(length)));
  buffer_ += payload;
  put_little_endian(buffer_, masked_crc32c(bytes_of(payload)));
}

void EventWriter::flush() {
  append_all(fd_, buffer_, path_);
  buffer_.clear();
}

}  // namespace dtn
