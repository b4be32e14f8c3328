#include "io/tensorboard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <system_error>
#include <vector>

#include "core/format.h"
#include "dtn/core/log.h"
#include "io/cursor.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using protozero::pbf_writer;

constexpr std::size_t kFlushBytes = 1 << 16;

// Field numbers of tensorflow/core/util/event.proto, and of framework/summary.proto, tensor.proto
// and tensor_shape.proto.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3;
constexpr int kEventSummary = 5, kEventSessionLog = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueSimple = 2, kValueImage = 4, kValueHistogram = 5;
constexpr int kValueTensor = 8, kValueMetadata = 9;
constexpr int kImageHeight = 1, kImageWidth = 2, kImageColorspace = 3, kImageEncoded = 4;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramNum = 3, kHistogramSum = 4;
constexpr int kHistogramSumSquares = 5, kHistogramLimits = 6, kHistogramBuckets = 7;
constexpr int kTensorType = 1, kTensorShape = 2, kShapeDim = 2, kDimSize = 1, kTensorFloats = 5;
constexpr int kTensorFloat = 1;
constexpr int kMetadataPlugin = 1, kPluginName = 1, kPluginContent = 2;
// tensorboard/plugins/hparams/plugin_data.proto, and google/protobuf/struct.proto.
constexpr int kPluginSession = 3, kSessionHyperparameters = 1, kSessionStart = 5;
constexpr int kMapKey = 1, kMapValue = 2;
constexpr int kNumberValue = 2, kStringValue = 3, kBoolValue = 4;
constexpr int kSessionLogStatus = 1, kSessionLogStart = 1;

double seconds_now() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count();
}

// Adds a google.protobuf.Value.
void add_setting(pbf_writer& entry, const std::variant<double, bool, std::string>& value) {
  pbf_writer out(entry, kMapValue);
  if (const double* number = std::get_if<double>(&value)) out.add_double(kNumberValue, *number);
  if (const bool* yes = std::get_if<bool>(&value)) out.add_bool(kBoolValue, *yes);
  if (const std::string* text = std::get_if<std::string>(&value)) {
    out.add_string(kStringValue, *text);
  }
}

// Adds a tensor of one float32 zero. Even a summary that has only metadata needs a tensor.
void add_empty_tensor(pbf_writer& value) {
  constexpr std::array kZero{0.0F};
  pbf_writer tensor(value, kValueTensor);
  tensor.add_enum(kTensorType, kTensorFloat);
  {
    pbf_writer shape(tensor, kTensorShape);
    pbf_writer(shape, kShapeDim).add_int64(kDimSize, 1);
  }
  tensor.add_packed_float(kTensorFloats, kZero.begin(), kZero.end());
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

// Begins an event with the fields that all events share.
pbf_writer begin_event(std::string& out, std::int64_t step) {
  pbf_writer event(out);
  event.add_double(kEventWallTime, seconds_now());
  event.add_int64(kEventStep, step);
  return event;
}

// TensorBoard reads the files of a folder in order of their names, so the name begins with the
// time.
fs::path new_event_file(const fs::path& directory) {
  static std::atomic<unsigned> count{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  return directory / format("events.out.tfevents.%010lld.%s.%d.%u",
                            static_cast<long long>(seconds_now()), host.data(), ::getpid(),
                            count.fetch_add(1));
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
  file_ =
      FileHandle(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (file_.get() < 0) throw_errno("create", path_);
  std::string version;
  begin_event(version, 0).add_string(kEventFileVersion, "brain.Event:2");
  append_record(version);
  if (resumed_step) {
    std::string restarted;
    pbf_writer event = begin_event(restarted, *resumed_step + 1);
    pbf_writer(event, kEventSessionLog).add_enum(kSessionLogStatus, kSessionLogStart);
    append_record(restarted);
  }
  flush();
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const std::exception& e) {
    log_warn(e.what());
  }
}

template <class Add>
void EventWriter::add_value(std::string_view tag, std::int64_t step, Add add) {
  std::string message;
  {
    pbf_writer event = begin_event(message, step), summary(event, kEventSummary);
    pbf_writer value(summary, kSummaryValue);
    value.add_string(kValueTag, tag.data(), tag.size());
    add(value);
  }
  append_record(message);
  if (buffer_.size() >= kFlushBytes) flush();
}

void EventWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  add_value(tag, step, [&](pbf_writer& summary) {
    summary.add_float(kValueSimple, static_cast<float>(value));
  });
}

void EventWriter::add_png(std::string_view tag, std::span<const std::byte> png, std::int64_t width,
                          std::int64_t height, std::int64_t step) {
  constexpr int kRgb = 3;
  add_value(tag, step, [&](pbf_writer& value) {
    pbf_writer image(value, kValueImage);
    image.add_int64(kImageHeight, height);
    image.add_int64(kImageWidth, width);
    image.add_int64(kImageColorspace, kRgb);
    image.add_bytes(kImageEncoded, reinterpret_cast<const char*>(png.data()), png.size());
  });
}

void EventWriter::add_histogram(std::string_view tag, std::span<const float> values,
                                std::int64_t step) {
  const std::optional<Histogram> h = histogram_of(values);
  if (!h) return;
  add_value(tag, step, [&](pbf_writer& value) {
    pbf_writer histogram(value, kValueHistogram);
    histogram.add_double(kHistogramMin, h->low);
    histogram.add_double(kHistogramMax, h->high);
    histogram.add_double(kHistogramNum, h->count);
    histogram.add_double(kHistogramSum, h->sum);
    histogram.add_double(kHistogramSumSquares, h->sum_squares);
    histogram.add_packed_double(kHistogramLimits, h->limits.begin(), h->limits.end());
    histogram.add_packed_double(kHistogramBuckets, h->buckets.begin(), h->buckets.end());
  });
}

void EventWriter::add_hyperparameters(std::span<const Hyperparameter> all) {
  add_value("_hparams_/session_start_info", 0, [&](pbf_writer& value) {
    add_empty_tensor(value);
    pbf_writer metadata(value, kValueMetadata), plugin(metadata, kMetadataPlugin);
    plugin.add_string(kPluginName, "hparams");
    pbf_writer data(plugin, kPluginContent), session(data, kPluginSession);
    for (const Hyperparameter& h : all) {
      pbf_writer entry(session, kSessionHyperparameters);
      entry.add_string(kMapKey, h.name);
      add_setting(entry, h.value);
    }
    session.add_double(kSessionStart, seconds_now());
  });
}

void EventWriter::append_record(std::string_view payload) {
  std::string length;
  put(length, std::uint64_t{payload.size()});
  buffer_ += length;
  put(buffer_, masked_crc32c(as_bytes_of(length)));
  buffer_ += payload;
  put(buffer_, masked_crc32c(as_bytes_of(payload)));
}

void EventWriter::flush() {
  append_all(file_.get(), buffer_, path_);
  buffer_.clear();
}

}  // namespace dtn
