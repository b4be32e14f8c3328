#include "io/safetensors_stream.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "temp_folder.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

class SafetensorsStreamTest : public testing::Test {
 protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  std::string bytes_of(const char* name) const { return folder_.read(name); }
  bool is_empty() const { return fs::is_empty(folder_.path()); }

  const test::TempFolder folder_;
};

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_F(SafetensorsStreamTest, MatchesWholeFileWriter) {
  const std::vector<std::int64_t> labels = {3, 1, 2};
  std::vector<float> rows(3 * 400000);  // more than the write buffer holds
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 1013);
  const StringMap metadata = {{"config", "name: a"}};
  write_safetensors(
      path("whole"),
      {{"rows", Tensor::from(rows, {3, 400000})}, {"labels", Tensor::from(labels, {3})}}, metadata);

  SafetensorsStream stream(path("streamed"),
                           {{"labels", DType::kInt64, {3}}, {"rows", DType::kFloat32, {3, 400000}}},
                           metadata);
  stream.append(bytes(labels).first(5));  // parts may end anywhere
  stream.append(bytes(labels).subspan(5));
  stream.append(bytes(rows).first(4000001));
  stream.append(bytes(rows).subspan(4000001));
  EXPECT_FALSE(fs::exists(path("streamed")));
  stream.commit();
  EXPECT_EQ(bytes_of("streamed"), bytes_of("whole"));
  EXPECT_EQ(read_safetensors(path("streamed")).find("rows")->values<float>()[401013],
            401013 % 1013);
}

TEST_F(SafetensorsStreamTest, AcceptsEmptyTensors) {
  SafetensorsStream stream(
      path("empty"),
      {{"a", DType::kFloat32, {0, 4}}, {"b", DType::kFloat32, {1}}, {"c", DType::kFloat32, {0}}});
  stream.append(bytes(std::vector<float>{7}));
  stream.commit();
  EXPECT_EQ(read_safetensors(path("empty")).find("b")->values<float>()[0], 7);
}

TEST_F(SafetensorsStreamTest, RejectsMissingAndExcessData) {
  const std::vector<float> two = {1, 2};
  {
    SafetensorsStream stream(path("short"), {{"a", DType::kFloat32, {3}}});
    stream.append(bytes(two));
    EXPECT_THROW(stream.commit(), Error);
  }
  {
    SafetensorsStream stream(path("long"), {{"a", DType::kFloat32, {1}}});
    EXPECT_THROW(stream.append(bytes(two)), Error);
  }
  EXPECT_TRUE(is_empty());
}

TEST_F(SafetensorsStreamTest, RejectsDuplicateNames) {
  EXPECT_THROW(
      SafetensorsStream(path("twice"), {{"a", DType::kFloat32, {1}}, {"a", DType::kFloat32, {1}}}),
      Error);
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace dtn
