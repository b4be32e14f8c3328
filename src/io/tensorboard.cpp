#include "io/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>
#include <vector>

#include "dtn/core/log.h"
#include "io/posix.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

// Field numbers of tensorflow/core/util/event.proto, and of framework/summary.proto, tensor.proto
// and tensor_shape.proto.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimple = 2;
constexpr int kValueImage = 4;
constexpr int kValueHistogram = 5;
constexpr int kValueTensor = 8;
constexpr int kValueMetadata = 9;
constexpr int kImageHeight = 1, kImageWidth = 2, kImageColorspace = 3, kImageEncoded = 4;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramNum = 3, kHistogramSum = 4;
constexpr int kHistogramSumSquares = 5, kHistogramLimits = 6, kHistogramBuckets = 7;
constexpr int kTensorType = 1, kTensorShape = 2, kShapeDim = 2, kDimSize = 1, kTensorFloats = 5;
constexpr std::uint64_t kTensorFloat = 1;
constexpr int kMetadataPlugin = 1, kPluginName = 1, kPluginContent = 2;
// tensorboard/plugins/hparams/plugin_data.proto, and google/protobuf/struct.proto.
constexpr int kPluginSession = 3, kSessionHyperparameters = 1, kSessionStart = 5;
constexpr int kMapKey = 1, kMapValue = 2;
constexpr int kNumberValue = 2, kStringValue = 3, kBoolValue = 4;
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

void put_integer(std::string& out, int field, std::uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

void put_double(std::string& out, int field, double value) {
  put_key(out, field, kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void put_doubles(std::string& out, int field, std::span<const double> values) {
  std::string packed;
  for (const double v : values) put_little_endian(packed, std::bit_cast<std::uint64_t>(v));
  put_bytes(out, field, packed);
}

// google.protobuf.Value
std::string protobuf_value(const std::variant<double, bool, std::string>& value) {
  std::string out;
  if (const double* number = std::get_if<double>(&value)) put_double(out, kNumberValue, *number);
  if (const bool* yes = std::get_if<bool>(&value)) put_integer(out, kBoolValue, *yes ? 1 : 0);
  if (const std::string* text = std::get_if<std::string>(&value)) {
    put_bytes(out, kStringValue, *text);
  }
  return out;
}

// Returns a tensor of one float32 zero. Even a summary that has only metadata needs a tensor.
std::string empty_tensor() {
  std::string dim, shape, tensor, zero;
  put_integer(dim, kDimSize, 1);
  put_bytes(shape, kShapeDim, dim);
  put_integer(tensor, kTensorType, kTensorFloat);
  put_bytes(tensor, kTensorShape, shape);
  put_little_endian(zero, std::bit_cast<std::uint32_t>(0.0F));
  put_bytes(tensor, kTensorFloats, zero);
  return tensor;
}

struct Histogram {
  double low = 0, high = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits, buckets;  // upper end and count of each bin
};

std::optional<Histogram> histogram_of(std::span<const float> values) {
  Histogram h;
  h.low = std::numeric_limits<double>::infinity();
  h.high = -h.low;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    h.low = std::min<double>(h.low, v);
    h.high = std::max<double>(h.high, v);
    h.count += 1;
    h.sum += v;
    h.sum_squares += static_cast<double>(v) * v;
  }
  if (h.count == 0) return std::nullopt;
  constexpr std::size_t kBins = EventWriter::kHistogramBins;
  const double width = (h.high - h.low) / kBins;
  h.buckets.assign(kBins, 0);
  for (std::size_t i = 0; i < kBins; ++i) {
    h.limits.push_back(h.low + width * static_cast<double>(i + 1));
  }
  h.limits.back() = h.high;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double place = width > 0 ? (v - h.low) / width : 0;
    h.buckets[std::min(static_cast<std::size_t>(place), kBins - 1)] += 1;
  }
  return h;
}

// Returns the fields that all events share. A protobuf message is the concatenation of its fields.
std::string event(std::int64_t step) {
  std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string out;
  put_key(out, kEventWallTime, kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(now.count()));
  put_key(out, kEventStep, kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

// TensorBoard reads the files of a folder in order of their names, so the name begins with the
// time.
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

void EventWriter::add_value(std::string_view value, std::int64_t step) {
  std::string summary;
  put_bytes(summary, kSummaryValue, value);
  std::string message = event(step);
  put_bytes(message, kEventSummary, summary);
  append_record(message);
  if (buffer_.size() >= kFlushBytes) flush();
}

void EventWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  std::string scalar;
  put_bytes(scalar, kValueTag, tag);
  put_key(scalar, kValueSimple, kFixed32);
  put_little_endian(scalar, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  add_value(scalar, step);
}

void EventWriter::add_png(std::string_view tag, std::span<const std::byte> png, std::int64_t width,
                          std::int64_t height, std::int64_t step) {
  constexpr std::uint64_t kRgb = 3;
  std::string image;
  put_integer(image, kImageHeight, static_cast<std::uint64_t>(height));
  put_integer(image, kImageWidth, static_cast<std::uint64_t>(width));
  put_integer(image, kImageColorspace, kRgb);
  put_bytes(image, kImageEncoded, {reinterpret_cast<const char*>(png.data()), png.size()});
  std::string value;
  put_bytes(value, kValueTag, tag);
  put_bytes(value, kValueImage, image);
  add_value(value, step);
}

void EventWriter::add_histogram(std::string_view tag, std::span<const float> values,
                                std::int64_t step) {
  const std::optional<Histogram> histogram = histogram_of(values);
  if (!histogram) return;
  std::string message;
  put_double(message, kHistogramMin, histogram->low);
  put_double(message, kHistogramMax, histogram->high);
  put_double(message, kHistogramNum, histogram->count);
  put_double(message, kHistogramSum, histogram->sum);
  put_double(message, kHistogramSumSquares, histogram->sum_squares);
  put_doubles(message, kHistogramLimits, histogram->limits);
  put_doubles(message, kHistogramBuckets, histogram->buckets);
  std::string value;
  put_bytes(value, kValueTag, tag);
  put_bytes(value, kValueHistogram, message);
  add_value(value, step);
}

void EventWriter::add_hyperparameters(std::span<const Hyperparameter> all) {
  std::string session;
  for (const Hyperparameter& h : all) {
    std::string entry;
    put_bytes(entry, kMapKey, h.name);
    put_bytes(entry, kMapValue, protobuf_value(h.value));
    put_bytes(session, kSessionHyperparameters, entry);
  }
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  put_double(session, kSessionStart, now.count());
  std::string data;
  put_bytes(data, kPluginSession, session);
  std::string plugin;
  put_bytes(plugin, kPluginName, "hparams");
  put_bytes(plugin, kPluginContent, data);
  std::string metadata;
  put_bytes(metadata, kMetadataPlugin, plugin);
  std::string value;
  put_bytes(value, kValueTag, "_hparams_/session_start_info");
  put_bytes(value, kValueTensor, empty_tensor());
  put_bytes(value, kValueMetadata, metadata);
  add_value(value, 0);
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
