#include "io/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "dtn/core/check.h"
#include "temp_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(Crc32c, KnownValues) {
  // RFC 3720, section B.4.
  EXPECT_EQ(crc32c(bytes_of("")), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(masked_crc32c(bytes_of("")), 0xa282ead8u);
  EXPECT_EQ(masked_crc32c(bytes_of("123456789")),
            ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u);
}

template <class T>
T take(std::string_view& in) {
  if (in.size() < sizeof(T)) throw Error("record cut short");
  T value;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}

// Splits a file into payloads and checks both checksums of each frame.
std::vector<std::string> records(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(stream), {}};
  std::string_view in = file;
  std::vector<std::string> payloads;
  while (!in.empty()) {
    std::string_view length_bytes = in.substr(0, 8);
    auto length = take<std::uint64_t>(in);
    EXPECT_EQ(take<std::uint32_t>(in), masked_crc32c(bytes_of(length_bytes)));
    payloads.emplace_back(in.substr(0, length));
    in.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(in), masked_crc32c(bytes_of(payloads.back())));
  }
  return payloads;
}

std::uint64_t take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    auto byte = take<std::uint8_t>(in);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

// Field number to raw value: 8 or 4 bytes, the content, or a varint as 8 bytes.
std::map<int, std::string> fields(std::string_view message) {
  std::map<int, std::string> result;
  while (!message.empty()) {
    std::uint64_t key = take_varint(message);
    std::uint64_t size = key % 8 == 1 ? 8 : key % 8 == 5 ? 4 : 0;
    std::string& value = result[static_cast<int>(key / 8)];
    if (key % 8 == 0) {
      std::uint64_t number = take_varint(message);
      value.assign(reinterpret_cast<const char*>(&number), sizeof number);
      continue;
    }
    if (key % 8 == 2) size = take_varint(message);
    value = message.substr(0, size);
    message.remove_prefix(size);
  }
  return result;
}

template <class T>
T as(const std::string& raw) {
  std::string_view in = raw;
  return take<T>(in);
}

class EventFiles : public ::testing::Test {
 protected:
  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(EventFiles, FramesAndMessagesReadBack) {
  fs::path path;
  {
    EventWriter writer(folder_ / "tensorboard");
    path = writer.path();
    writer.add_scalar("train/loss", 2.5, 1);
    writer.add_scalar("lr", 1e-3, 123456789012);
    writer.flush();
    EXPECT_EQ(records(path).size(), 3u);
    writer.add_scalar(std::string(200, 't'), std::nan(""), 0);
  }
  EXPECT_EQ(path.filename().string().rfind("events.out.tfevents.", 0), 0u);
  auto all = records(path);
  ASSERT_EQ(all.size(), 4u);

  auto version = fields(all[0]);
  EXPECT_EQ(version.at(3), "brain.Event:2");
  EXPECT_GT(as<double>(version.at(1)), 1.6e9);

  auto loss = fields(all[1]);
  EXPECT_EQ(as<std::int64_t>(loss.at(2)), 1);
  auto value = fields(fields(loss.at(5)).at(1));
  EXPECT_EQ(value.at(1), "train/loss");
  EXPECT_EQ(as<float>(value.at(2)), 2.5f);

  auto lr = fields(all[2]);
  EXPECT_EQ(as<std::int64_t>(lr.at(2)), 123456789012);
  EXPECT_EQ(as<float>(fields(fields(lr.at(5)).at(1)).at(2)), 1e-3f);

  auto last = fields(fields(fields(all[3]).at(5)).at(1));
  EXPECT_EQ(last.at(1), std::string(200, 't'));
  EXPECT_TRUE(std::isnan(as<float>(last.at(2))));
}

double as_double(const std::string& raw, std::size_t index = 0) {
  double value = 0;
  std::memcpy(&value, raw.data() + index * sizeof value, sizeof value);
  return value;
}

// The only value of the only summary, which follows the record with the file version.
std::map<int, std::string> value_in(const fs::path& path) {
  const std::vector<std::string> all = records(path);
  EXPECT_EQ(all.size(), 2u);
  return fields(fields(fields(all.back())[5])[1]);
}

TEST_F(EventFiles, StoresImagesUnchanged) {
  const std::string png = "\x89PNG...";
  fs::path path;
  {
    EventWriter writer(folder_);
    path = writer.path();
    writer.add_png("samples", bytes_of(png), 96, 64, 7);
  }
  auto value = value_in(path);
  EXPECT_EQ(value[1], "samples");
  auto image = fields(value[4]);
  EXPECT_EQ(image[1][0], 64);
  EXPECT_EQ(image[2][0], 96);
  EXPECT_EQ(image[3][0], 3);
  EXPECT_EQ(image[4], png);
}

TEST_F(EventFiles, HistogramsCountEveryFiniteValue) {
  std::vector<float> values = {NAN, INFINITY};
  for (int i = 0; i <= 64; ++i) values.push_back(static_cast<float>(i) - 32);
  fs::path path;
  {
    EventWriter writer(folder_);
    path = writer.path();
    writer.add_histogram("weights", values, 3);
    writer.add_histogram("nothing", std::vector<float>{NAN}, 3);
  }
  auto histogram = fields(value_in(path)[5]);
  EXPECT_EQ(as_double(histogram[1]), -32);
  EXPECT_EQ(as_double(histogram[2]), 32);
  EXPECT_EQ(as_double(histogram[3]), 65);
  EXPECT_EQ(as_double(histogram[4]), 0);
  ASSERT_EQ(histogram[6].size(), EventWriter::kHistogramBins * sizeof(double));
  EXPECT_EQ(as_double(histogram[6], 0), -31);
  EXPECT_EQ(as_double(histogram[6], 63), 32);
  for (std::size_t i = 0; i < 63; ++i) EXPECT_EQ(as_double(histogram[7], i), 1) << i;
  EXPECT_EQ(as_double(histogram[7], 63), 2);
}

TEST_F(EventFiles, HistogramOfOneValueContainsIt) {
  fs::path path;
  {
    EventWriter writer(folder_);
    path = writer.path();
    writer.add_histogram("constant", std::vector<float>(5, 2.5F), 0);
  }
  auto histogram = fields(value_in(path)[5]);
  EXPECT_EQ(as_double(histogram[7], 0), 5);
  EXPECT_EQ(as_double(histogram[6], 63), 2.5);
}

TEST_F(EventFiles, HyperparametersNamePlugin) {
  const std::vector<EventWriter::Hyperparameter> all = {
      {"optim.lr", 0.5}, {"model.norm.type", std::string("dtn")}, {"data.shuffle", true}};
  fs::path path;
  {
    EventWriter writer(folder_);
    path = writer.path();
    writer.add_hyperparameters(all);
  }
  auto value = value_in(path);
  EXPECT_EQ(value[1], "_hparams_/session_start_info");
  auto plugin = fields(fields(value[9])[1]);
  EXPECT_EQ(plugin[1], "hparams");
  const std::string session = fields(plugin[2])[3];
  EXPECT_NE(session.find("model.norm.type"), std::string::npos);
  EXPECT_EQ(fields(fields(session)[1])[1], "data.shuffle") << "the last entry of the map";
}

TEST_F(EventFiles, ResumeOpensNewFileAfterLastStep) {
  EventWriter first(folder_);
  EventWriter second(folder_, 41);
  EXPECT_NE(first.path(), second.path());
  EXPECT_LT(first.path().filename(), second.path().filename());
  auto all = records(second.path());
  ASSERT_EQ(all.size(), 2u);
  auto start = fields(all[1]);
  EXPECT_EQ(as<std::int64_t>(start.at(2)), 42);
  EXPECT_EQ(as<std::int64_t>(fields(start.at(7)).at(1)), 1);
}

TEST_F(EventFiles, ErrorsNameFolder) {
  std::ofstream(folder_ / "file");
  try {
    EventWriter writer(folder_ / "file" / "tensorboard");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find((folder_ / "file").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace dtn
