#include "apps/get/part_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string_view>

#include "apps/get/weights_receiver.h"
#include "dtn/core/check.h"
#include "io/file.h"
#include "temp_folder.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

void append_text(PartFile& part, std::string_view text) {
  part.append(std::as_bytes(std::span(text.data(), text.size())));
}

FileFacts facts_of(std::int64_t size, const std::string& etag, const std::string& sha256 = "") {
  FileFacts facts;
  facts.size = size;
  facts.etag = etag;
  facts.sha256 = sha256;
  return facts;
}

TEST(PartFile, GoesOnInAnotherProcess) {
  const TempFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  {
    PartFile part(file);
    EXPECT_EQ(part.bytes(), 0);
    part.restart(facts_of(3, "v1"));
    append_text(part, "a");
  }
  PartFile part(file);
  EXPECT_EQ(part.bytes(), 1);
  EXPECT_EQ(part.facts().etag, "v1");
  append_text(part, "bc");
  EXPECT_EQ(part.sha256(), kAbc);
  part.commit();
  EXPECT_EQ(read_text(file.string()), "abc");
  EXPECT_FALSE(fs::exists(part.path()));
  EXPECT_FALSE(fs::exists(file.string() + ".part.json"));
}

TEST(PartFile, DropsBytesOfAnUnknownContent) {
  const TempFolder folder;
  const fs::path file = folder.path() / "f";
  std::ofstream(file.string() + ".part") << "abc";
  EXPECT_EQ(PartFile(file).bytes(), 0);
  for (const char* state : {"", "no JSON", "[1]", "{\"size\": 2}", "{\"size\": \"3\"}"}) {
    std::ofstream(file.string() + ".part") << "abc";
    std::ofstream(file.string() + ".part.json") << state;
    EXPECT_EQ(PartFile(file).bytes(), 0) << state;
  }
  std::ofstream(file.string() + ".part") << "abc";
  std::ofstream(file.string() + ".part.json") << "{\"size\": 4}";
  EXPECT_EQ(PartFile(file).bytes(), 3);
}

TEST(PartFile, KnowsItsContent) {
  const TempFolder folder;
  PartFile part(folder.path() / "f");
  part.restart(facts_of(3, "v1", "sum"));
  EXPECT_TRUE(part.belongs_to(facts_of(3, "v2", "sum")));  // the checksum decides
  EXPECT_FALSE(part.belongs_to(facts_of(3, "v1", "other")));
  EXPECT_FALSE(part.belongs_to(facts_of(4, "v1", "sum")));
  EXPECT_TRUE(part.belongs_to(facts_of(3, "v1")));
  EXPECT_FALSE(part.belongs_to(facts_of(3, "")));
  part.restart(facts_of(3, ""));
  EXPECT_FALSE(part.belongs_to(facts_of(3, "")));
}

TEST(PartFile, DoesNotWriteThroughALink) {
  const TempFolder folder;
  const fs::path file = folder.path() / "f";
  fs::create_symlink(folder.path() / "elsewhere", file.string() + ".part");
  EXPECT_THROW(PartFile{file}, Error);
  EXPECT_FALSE(fs::exists(folder.path() / "elsewhere"));
}

TEST(ContentRange, IsParsed) {
  EXPECT_EQ(parse_content_range("bytes 5-9/10")->first, 5);
  EXPECT_EQ(parse_content_range("bytes 5-9/10")->total, 10);
  EXPECT_EQ(parse_content_range("bytes 5-9/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */10")->first, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */10")->total, 10);
  for (const char* text :
       {"", "bytes", "bytes 5-9", "rows 5-9/10", "bytes x-9/10", "bytes -5-9/10"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

}  // namespace
}  // namespace dtn::app
