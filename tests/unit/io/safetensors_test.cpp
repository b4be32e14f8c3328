#include "dtn/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>

#include "dtn/core/parallel.h"
#include "temp_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TensorFile parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span<const char>(file.data(), file.size())), "test");
}

// A file with this header text, valid or not, followed by `data`.
std::string file_of(const std::string& json, const std::string& data = "") {
  std::uint64_t length = json.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + json + data;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.nbytes() == 0 || std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0);
}

class Safetensors : public ::testing::Test {
 protected:
  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const fs::path path_ = folder_ / "a.safetensors";
};

NamedTensors every_kind() {
  float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"f32", Tensor::from(std::vector<float>{1, -2, nan, 4, 5, 6}, {2, 3})},
      {"bf16",
       Tensor::from(std::vector<bfloat16>{bfloat16(1.5f), bfloat16(-3.0f), bfloat16(nan)}, {3})},
      {"f64", Tensor::from(std::vector<double>{1e-300, -0.0}, {1, 2, 1})},
      {"i64", Tensor::from(std::vector<std::int64_t>{INT64_MIN, INT64_MAX}, {2})},
      {"u8", Tensor::from(std::vector<std::uint8_t>{0, 255, 7}, {3})},
      {"scalar", Tensor::from(std::vector<float>{42}, Shape{})},
      {"empty", Tensor::zeros({0}, DType::kFloat32)},
      {"empty rank 3", Tensor::zeros({4, 0, 5}, DType::kInt64)},
      {"name \"quoted\" \xc3\xa9\n", Tensor::from(std::vector<float>{1, 2}, {2})},
      {"rank6", Tensor::from(std::vector<std::uint8_t>{9, 8}, {1, 1, 2, 1, 1, 1})},
  };
}

// Long enough for several parts of the parallel checksum, and not a multiple of their size.
Tensor long_tensor() {
  std::vector<float> values(3'000'017);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
  return Tensor::from(values, {3'000'017});
}

TEST_F(Safetensors, RoundTripKeepsEveryKindOfTensor) {
  NamedTensors tensors = every_kind();
  tensors.emplace_back("long", long_tensor());
  StringMap metadata{{"config", "a: \"b\"\nc: \xc3\xa9\n"}, {"empty", ""}};
  write_safetensors(path_, tensors, metadata);
  for (bool map : {false, true}) {
    TensorFile file = read_safetensors(path_, {.map = map});
    EXPECT_EQ(file.metadata, metadata);
    ASSERT_EQ(file.tensors.size(), tensors.size());
    EXPECT_TRUE(std::is_sorted(file.tensors.begin(), file.tensors.end(),
                               [](auto& a, auto& b) { return a.first < b.first; }));
    for (const auto& [name, tensor] : tensors) {
      const Tensor* found = file.find(name);
      ASSERT_TRUE(found) << name;
      EXPECT_TRUE(same(*found, tensor)) << name;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->raw()) % size_of(found->dtype()), 0u);
    }
  }
  EXPECT_EQ(read_safetensors(path_).find("absent"), nullptr);
}

TEST_F(Safetensors, FileWithoutTensorsRoundTrips) {
  write_safetensors(path_, {}, {});
  TensorFile file = read_safetensors(path_);
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

TEST_F(Safetensors, BytesDependOnContentOnly) {
  NamedTensors tensors = every_kind();
  tensors.emplace_back("long", long_tensor());
  write_safetensors(path_, tensors, {{"k", "v"}});
  std::string first = read_text(path_);
  std::reverse(tensors.begin(), tensors.end());
  int threads = max_threads();
  set_num_threads(1);
  write_safetensors(folder_ / "b", tensors, {{"k", "v"}});
  set_num_threads(threads);
  EXPECT_EQ(first, read_text(folder_ / "b"));
  // The header is padded to a multiple of 8, so the data is aligned for every type.
  std::uint64_t length;
  std::memcpy(&length, first.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
}

TEST_F(Safetensors, WritingToMappedTensorDoesNotChangeFile) {
  write_safetensors(path_, every_kind());
  std::string before = read_text(path_);
  TensorFile file = read_safetensors(path_, {.map = true});
  Tensor tensor = *file.find("f32");
  tensor.data<float>()[0] = 99;
  EXPECT_EQ(before, read_text(path_));
}

TEST_F(Safetensors, TensorsOutliveFile) {
  write_safetensors(path_, every_kind());
  Tensor read = *read_safetensors(path_).find("i64");
  Tensor mapped = *read_safetensors(path_, {.map = true}).find("i64");
  fs::remove(path_);
  EXPECT_EQ(read.data<std::int64_t>()[1], INT64_MAX);
  EXPECT_EQ(mapped.data<std::int64_t>()[1], INT64_MAX);
}

TEST_F(Safetensors, RejectsInvalidTensorsWhenWriting) {
  Tensor t = Tensor::zeros({1}, DType::kFloat32);
  EXPECT_THROW(write_safetensors(path_, {{"a", t}, {"a", t}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"__metadata__", t}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"a", Tensor()}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"\xff", t}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"a", t}}, {{"k", "\xff"}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"a", t}}, {{"checksum.a", "x"}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"a", t}}, {{"header_checksum", "x"}}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "no" / "folder", {{"a", t}}), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Safetensors, AcceptsNamesLikeChecksumKeys) {
  Tensor t = Tensor::from(std::vector<float>{3}, {1});
  NamedTensors tensors{{"header_checksum", t}, {"checksums", t}, {"checksum.a", t}, {"", t}};
  write_safetensors(path_, tensors, {{"note", "\"header_checksum\":\"00000000\""}});
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 4u);
}

TEST_F(Safetensors, ReadsFilesAndTypesOfOtherPrograms) {
  // Float16: 1, -2, the smallest subnormal, infinity. Odd offsets force copies. There are no
  // checksums: a key that looks like a checksum but is not declared has no effect.
  std::string data("\x00\x3c\x00\xc0\x01\x00\x00\x7c", 8);
  data = "\x07" + data + std::string("\xfe\xff\xff\xff\x05\x00\x00\x00", 8);
  std::string file = file_of(R"({"z":{"dtype":"I32","shape":[2],"data_offsets":[9,17]},)"
                             R"("h":{"shape":[4],"data_offsets":[1,9],"dtype":"F16"},)"
                             R"("b":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                             R"("__metadata__":{"format":"pt","checksum.b":"whatever"}}    )",
                             data);
  std::ofstream(path_, std::ios::binary) << file;
  for (const TensorFile& loaded :
       {parse(file), read_safetensors(path_), read_safetensors(path_, {.map = true})}) {
    const float* h = loaded.find("h")->data<float>();
    EXPECT_EQ(h[0], 1.0f);
    EXPECT_EQ(h[1], -2.0f);
    EXPECT_EQ(h[2], 0x1p-24f);
    EXPECT_TRUE(std::isinf(h[3]));
    EXPECT_EQ(loaded.find("z")->data<std::int64_t>()[0], -2);
    EXPECT_EQ(loaded.find("z")->data<std::int64_t>()[1], 5);
    EXPECT_EQ(loaded.find("b")->data<std::uint8_t>()[0], 7);
    EXPECT_EQ(loaded.find("b")->rank(), 0);
    EXPECT_EQ(loaded.metadata.at("format"), "pt");
    EXPECT_EQ(loaded.metadata.size(), 2u);
  }
}

TEST_F(Safetensors, MisalignedDataIsCopied) {
  std::string data("\x01", 1);
  float one = 1.0f;
  data.append(reinterpret_cast<const char*>(&one), sizeof one);
  std::ofstream(path_, std::ios::binary)
      << file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                 data);
  TensorFile file = read_safetensors(path_, {.map = true});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.find("b")->raw()) % alignof(float), 0u);
  EXPECT_EQ(*file.find("b")->data<float>(), 1.0f);
}

struct Hostile {
  const char* what;  // part of the message
  std::string json;
  std::size_t data = 0;  // bytes after the header
};

std::string entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::vector<Hostile> hostile_headers() {
  std::string ok = entry("[1]", "[0,4]");
  std::string deep(100000, '[');
  return {
      {"is not a JSON object", ""},
      {"is not a JSON object", "[]"},
      {"is not a JSON object", " {}"},
      {"is not a JSON object", "\xef\xbb\xbf{}"},
      {"is not a JSON object", std::string("{}\0\0", 4)},
      {"not valid JSON", "{"},
      {"not valid JSON", "{}{}"},
      {"not valid JSON", "{} x"},
      {"not valid JSON", R"({"a":)" + ok, 4},
      {"not valid JSON", "{\"\xff\":" + ok + "}", 4},
      {"not valid JSON", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],}})", 4},
      {"not valid JSON", R"({/**/"a":)" + ok + "}", 4},
      {"unexpected array", R"({"a":)" + deep},
      {"'a' has an unexpected array", R"({"a":{"dtype":)" + deep},
      {"'a' has an unexpected array", R"({"a":{"shape":)" + deep},
      {"'a' has an unexpected object", R"({"a":{"shape":{}}})"},
      {"__metadata__ has an unexpected object", R"({"__metadata__":{"a":{"a":{}}}})"},
      {"unexpected number", R"({"a":1})"},
      {"unexpected null", R"({"a":null})"},
      {"unexpected boolean", R"({"a":{"dtype":true}})"},
      {"unexpected number", R"({"a":{"dtype":4}})"},
      {"unexpected string", R"({"a":"F32"})"},
      {"unexpected string", R"({"a":{"shape":["1"]}})"},
      {"__metadata__ has an unexpected number", R"({"__metadata__":{"a":1}})"},
      {"__metadata__ has an unexpected string", R"({"__metadata__":"a"})"},
      {"__metadata__ appears twice", R"({"__metadata__":{},"__metadata__":{}})"},
      {"the key 'a' twice", R"({"__metadata__":{"a":"","a":""}})"},
      {"'a' appears twice", R"({"a":)" + ok + R"(,"a":)" + entry("[1]", "[4,8]") + "}", 8},
      {"'a' has no dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4},
      {"'a' has no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4},
      {"'a' does not have two data_offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4},
      {"'a' does not have two data_offsets", R"({"a":)" + entry("[1]", "[0]") + "}", 4},
      {"'a' has more than two data_offsets", R"({"a":)" + entry("[1]", "[0,4,8]") + "}", 4},
      {"unknown field 'strides'", R"({"a":{"strides":[1]}})"},
      {"field dtype twice", R"({"a":{"dtype":"F32","dtype":"F64"}})"},
      {"dtype 'C64'", R"({"a":)" + entry("[1]", "[0,8]", "C64") + "}", 8},
      {"dtype 'f32'", R"({"a":)" + entry("[1]", "[0,4]", "f32") + "}", 4},
      {"dtype ''", R"({"a":)" + entry("[1]", "[0,4]", "") + "}", 4},
      {"unexpected negative number", R"({"a":)" + entry("[-1]", "[0,4]") + "}", 4},
      {"unexpected negative number", R"({"a":)" + entry("[1]", "[-4,0]") + "}", 4},
      {"not a 64-bit integer", R"({"a":)" + entry("[1.0]", "[0,4]") + "}", 4},
      {"not a 64-bit integer", R"({"a":)" + entry("[1]", "[0,4e0]") + "}", 4},
      {"not a 64-bit integer", R"({"a":)" + entry("[18446744073709551616]", "[0,4]") + "}", 4},
      {"elements overflows", R"({"a":)" + entry("[18446744073709551615]", "[0,4]") + "}", 4},
      {"elements overflows", R"({"a":)" + entry("[4294967296,4294967296]", "[0,0]") + "}"},
      {"elements overflows", R"({"a":)" + entry("[9223372036854775807,3,0]", "[0,0]") + "}"},
      {"bytes overflows", R"({"a":)" + entry("[4611686018427387904]", "[0,0]") + "}"},
      {"more than 6 dimensions", R"({"a":)" + entry("[1,1,1,1,1,1,1]", "[0,4]") + "}", 4},
      {"takes 8 bytes, but its data_offsets span 4", R"({"a":)" + entry("[2]", "[0,4]") + "}", 4},
      {"takes 4 bytes, but its data_offsets span 0", R"({"a":)" + entry("[1]", "[0,0]") + "}"},
      {"ends before it begins", R"({"a":)" + entry("[1]", "[4,0]") + "}", 4},
      {"cut short", R"({"a":)" + entry("[1]", "[0,4]") + "}", 3},
      {"cut short", R"({"a":)" + entry("[1]", "[18446744073709551612,18446744073709551615]") + "}",
       4},
      {"extra bytes at its end", R"({"a":)" + ok + "}", 5},
      {"extra bytes at its end", "{}", 1},
      {"'b' overlaps",
       R"({"a":)" + entry("[2]", "[0,8]") + R"(,"b":)" + entry("[1]", "[4,8]") + "}", 8},
      {"overlaps", R"({"a":)" + ok + R"(,"b":)" + ok + "}", 4},
      {"'b' leaves a gap", R"({"a":)" + ok + R"(,"b":)" + entry("[1]", "[8,12]") + "}", 12},
      {"'a' leaves a gap", R"({"a":)" + entry("[1]", "[4,8]") + "}", 8},
      {"does not match its checksum", R"({"__metadata__":{"checksums":"crc32"}})"},
      {"does not match its checksum", R"({"__metadata__":{"header_checksum":"00000000"}})"},
      {"does not match its checksum", R"({"__metadata__":{"header_checksum":""}})"},
      {"does not match its checksum",
       R"({"__metadata__":{"checksums":"md5","header_checksum":"00000000"}})"},
  };
}

TEST_F(Safetensors, ErrorsNameFaultOfHostileHeader) {
  auto cases = hostile_headers();
  ASSERT_GE(cases.size(), 30u);
  for (const Hostile& hostile : cases) {
    std::string shown = hostile.json.substr(0, 100);
    try {
      parse(file_of(hostile.json, std::string(hostile.data, '\0')));
      ADD_FAILURE() << "loaded: " << shown;
    } catch (const DataError& e) {
      std::string message = e.what();
      EXPECT_EQ(message.rfind("test: ", 0), 0u) << message;
      EXPECT_NE(message.find(hostile.what), std::string::npos) << message << "\nfor " << shown;
    }
  }
}

TEST_F(Safetensors, RejectsHostileLengths) {
  for (std::uint64_t length : {std::uint64_t{3}, std::uint64_t{100'000'001}, UINT64_MAX,
                               UINT64_MAX - 7, std::uint64_t{1} << 63}) {
    std::string file = file_of("{}");
    std::memcpy(file.data(), &length, sizeof length);
    EXPECT_THROW(parse(file), DataError) << length;
  }
  for (std::size_t bytes = 0; bytes < 8; ++bytes)
    EXPECT_THROW(parse(std::string(bytes, 'x')), DataError);
  EXPECT_EQ(parse(file_of("{}")).tensors.size(), 0u);
}

TEST_F(Safetensors, ErrorsNameOtherFileFormats) {
  const auto error_of = [&](const std::string& file, const char* name = "a.pth") {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << file;
    try {
      read_safetensors(path);
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto expect = [](const std::string& error, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  const std::string name = "archive/data.pkl";
  // Local file headers as zip tools and as torch.save() write them. The first bytes of the second
  // form a plausible header length.
  for (const std::string& version : {std::string("\x14\0\0\0", 4), std::string(4, '\0')}) {
    const std::string zip =
        "PK\x03\x04" + version + std::string(18, '\0') + std::string("\x10\0\0\0", 4);
    expect(error_of(zip + name + "\x80\x02}."),
           {"a.pth is a PyTorch checkpoint, not safetensors", "python3 -c", "torch.load", "a.pth ",
            "a.safetensors (if torch.load refuses"});
    expect(error_of(zip + name + "\x80\x02}.", "it's.pth"), {"it'\\''s.pth' '"});
    expect(error_of(zip + "word/document.xml"), {"a.pth is a ZIP archive"});
  }
  expect(error_of(std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", 10)),
         {"is a Python pickle", "python3 -c"});
  expect(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
                  "model.safetensors"),
         {"model.safetensors is a Git LFS pointer", "git lfs pull"});
  // The first bytes of a pickle, in a truncated safetensors file.
  const std::string whole = file_of("{" + std::string(638, ' ') + "}");
  EXPECT_EQ(whole.substr(0, 2), "\x80\x02");
  expect(error_of(whole.substr(0, 600)), {"not a safetensors file, or damaged"});
  EXPECT_EQ(error_of(whole), "");
}

TEST_F(Safetensors, ErrorsNameUnreadablePath) {
  fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(folder_ / "zero");
  for (const fs::path& path : {folder_ / "absent", folder_, pipe, folder_ / "zero"}) {
    for (bool map : {false, true}) {
      try {
        read_safetensors(path, {.map = map});
        ADD_FAILURE() << path;
      } catch (const DataError& e) {
        EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
      }
    }
  }
}

TEST_F(Safetensors, DetectsEveryBitFlip) {
  NamedTensors tensors = every_kind();
  write_safetensors(path_, tensors, {{"config", "name: x\nseed: 0\n"}});
  std::string good = read_text(path_);
  parse(good);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse(bad), DataError) << "bit " << bit << " of " << good.size() * 8;
  }
}

TEST_F(Safetensors, DetectsEveryTruncationAndExtension) {
  write_safetensors(path_, every_kind());
  std::string good = read_text(path_);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(parse(good.substr(0, size)), DataError) << size;
  }
  EXPECT_THROW(parse(good + "x"), DataError);
}

TEST_F(Safetensors, DetectsBitFlipsInLongTensorUnlessDisabled) {
  write_safetensors(path_, {{"long", long_tensor()}});
  std::string good = read_text(path_);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20; ++i) {
    std::string bad = good;
    std::size_t at = bad.size() - 1 - random() % 12'000'000;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    EXPECT_THROW(parse(bad), DataError);
    std::ofstream(path_, std::ios::binary) << bad;
    EXPECT_THROW(read_safetensors(path_, {.map = true}), DataError);
    EXPECT_NO_THROW(read_safetensors(path_, {.verify_checksums = false}));
  }
}

}  // namespace
}  // namespace dtn
