#include "io/tar.h"

#include <gtest/gtest.h>

#include "archives.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

using test::TarFile;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Read {
  std::vector<std::pair<std::string, std::string>> files;  // name, content
  std::int64_t skipped = 0;
  std::string first_skipped;
};

Read read(const std::string& archive) {
  MemorySource source(bytes_of(archive), "some.tar");
  TarReader reader(source);
  Read out;
  for (TarMember m; reader.next(m);) {
    EXPECT_GE(m.offset, 512);
    EXPECT_LE(m.offset + m.size, source.size());
    std::string content(static_cast<std::size_t>(m.size), '\0');
    source.read(m.offset, std::as_writable_bytes(std::span(content)));
    out.files.emplace_back(m.name, content);
  }
  TarMember m;
  EXPECT_FALSE(reader.next(m)) << "goes on behind the end";
  out.skipped = reader.skipped();
  out.first_skipped = reader.first_skipped();
  return out;
}

void expect_refused(const std::string& archive, const std::string& why) {
  try {
    read(archive);
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("some.tar"), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "read what should be refused for: " << why;
}

auto put(std::size_t at, std::string text) {
  return [=](TarFile::Header& h) { TarFile::set(h, at, text); };
}
// A header without the magic, from before POSIX.
void old_style(TarFile::Header& h) {
  TarFile::set(h, 257, std::string_view("\0\0\0\0\0\0\0\0", 8));
}

TEST(Tar, ReadsEveryFormatOfRegularFiles) {
  const std::string long_name = std::string(150, 'd') + "/" + std::string(200, 'f') + ".jpg";
  std::string binary_size("\x80\0\0\0\0\0\0\0\0\0\0\7", 12);
  TarFile tar;
  tar.add("plain.jpg", "one").add("./dot/empty.jpg", "");
  tar.add("file.jpg", "two", '0', put(345, "prefix/of"));
  tar.add("old.jpg", "three", '\0', old_style).add("contiguous.jpg", std::string(512, 'x'), '7');
  tar.add("gnu.jpg", "gnu", '0', [](TarFile::Header& h) {
    TarFile::set(h, 257, std::string_view("ustar  \0", 8));
    TarFile::set(h, 345, "12345670123");  // times, in place of POSIX's prefix
  });
  tar.add("././@LongLink", long_name + '\0', 'L').add(long_name.substr(0, 100), "four");
  tar.add("x", TarFile::pax("mtime", "1.5") + TarFile::pax("path", "päx.jpg"), 'x');
  tar.add("short.jpg", "five");
  tar.add("x", TarFile::pax("size", "3"), 'x')
      .add("sized.jpg", "six", '0', put(124, "00000000000"));
  tar.add("binary.jpg", "sevenup", '0', put(124, binary_size));
  tar.add("g", TarFile::pax("comment", "for all"), 'g')
      .add("spaces.jpg", "8", '0', put(124, "          1 "));
  const Read got = read(tar.bytes());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"plain.jpg", "one"},
      {"dot/empty.jpg", ""},
      {"prefix/of/file.jpg", "two"},
      {"old.jpg", "three"},
      {"contiguous.jpg", std::string(512, 'x')},
      {"gnu.jpg", "gnu"},
      {long_name, "four"},
      {"päx.jpg", "five"},
      {"sized.jpg", "six"},
      {"binary.jpg", "sevenup"},
      {"spaces.jpg", "8"}};
  EXPECT_EQ(got.files, expected);
  EXPECT_EQ(got.skipped, 0);
}

TEST(Tar, SkipsAndCountsOtherMembers) {
  struct Case {
    const char* why;
    std::function<void(TarFile&)> add;
  };
  const auto pax_path = [](const std::string& path) {
    return [=](TarFile& t) { t.add("x", TarFile::pax("path", path), 'x').add("a.jpg", "1"); };
  };
  const auto plain = [](const std::string& name) { return [=](TarFile& t) { t.add(name, "1"); }; };
  const std::vector<Case> cases = {
      {"hard link", [](TarFile& t) { t.add("a.jpg", "", '1', put(157, "/etc/passwd")); }},
      {"symbolic link", [](TarFile& t) { t.add("a.jpg", "", '2', put(157, "../../x")); }},
      {"symbolic link",  // with the size of its target
       [](TarFile& t) { t.add("a.jpg", "", '2', put(124, "00000077777")); }},
      {"device", [](TarFile& t) { t.add("a.jpg", "", '3'); }},
      {"device", [](TarFile& t) { t.add("a.jpg", "", '4'); }},
      {"named pipe", [](TarFile& t) { t.add("a.jpg", "", '6'); }},
      {"unknown type", [](TarFile& t) { t.add("a.jpg", "content", 'Z'); }},
      {"sparse", [](TarFile& t) { t.add("a.jpg", "content", 'S'); }},
      {"sparse",  // with two more blocks of its map
       [](TarFile& t) {
         t.add("a.jpg", "", 'S', [](TarFile::Header& h) {
           h[482] = 1;
           TarFile::set(h, 124, "00000000007");
         });
         std::string map(512, '\0');
         map[504] = 1;
         t.block(map).block(std::string(512, '\0')).block("content");
       }},
      {"sparse",
       [](TarFile& t) {
         t.add("x", TarFile::pax("GNU.sparse.major", "1"), 'x').add("a.jpg", "content");
       }},
      {"leaves its folder", plain("../a.jpg")},
      {"leaves its folder", plain("a/../../b.jpg")},
      {"leaves its folder", plain("a/..")},
      {"leaves its folder", plain("./../a.jpg")},
      {"absolute", plain("/etc/a.jpg")},
      {"absolute", pax_path("/a.jpg")},
      {"no name", plain("")},
      {"control characters", plain("a\x1b[31m.jpg")},
      {"control characters", pax_path(std::string("a\0b.jpg", 7))},
      {"too long", pax_path(std::string(5000, 'a'))},
  };
  for (const Case& c : cases) {
    TarFile tar;
    tar.add("first.jpg", "1");
    c.add(tar);
    tar.add("last.jpg", "2");
    const Read got = read(tar.bytes());
    EXPECT_EQ(got.files.size(), 2u) << c.why;
    EXPECT_EQ(got.skipped, 1) << c.why;
    EXPECT_NE(got.first_skipped.find(c.why), std::string::npos) << got.first_skipped;
  }
  // Dots within a name are valid; folders are not counted.
  TarFile tar;
  tar.add("dir/", "", '5').add("old-dir/", "", '0').add("..a/b...jpg", "1");
  EXPECT_EQ(read(tar.bytes()).files.size(), 1u);
  EXPECT_EQ(read(tar.bytes()).skipped, 0);
}

TEST(Tar, RejectsDamagedArchives) {
  TarFile good;
  good.add("a.jpg", "content").add("b.jpg", std::string(700, 'b'));
  const std::string bytes = good.bytes();
  std::string wrong = bytes;
  wrong[3] ^= 1;
  expect_refused(wrong, "byte 0 has a wrong checksum");
  wrong = bytes;
  wrong[1024 + 150] = 'x';
  expect_refused(wrong, "byte 1024 has a wrong checksum");
  expect_refused(bytes.substr(0, 1000), "end mark");
  expect_refused(bytes.substr(0, 1024 + 512 + 600), "declares 700 bytes for 'b.jpg'");
  expect_refused(good.without_end(), "end mark");
  expect_refused("", "end mark");
  expect_refused(std::string(100, 'x'), "end mark");
  expect_refused(std::string(5000, 'x'), "wrong checksum");
  EXPECT_EQ(read(bytes.substr(0, bytes.size() - 512)).files.size(), 2u);  // one block of zeros
}

TEST(Tar, RejectsInvalidSizes) {
  const std::vector<std::string> sizes = {"77777777777",
                                          "0000000000x",
                                          "-0000000001",
                                          std::string(12, '\xff'),
                                          std::string("\x80") + std::string(11, '\xff'),
                                          std::string("\x80\0\0\0\x7f", 5) + std::string(7, '\xff'),
                                          std::string("\x81") + std::string(11, '\0')};
  for (const std::string& size : sizes) {
    for (char type : {'0', 'x', 'L', 'S', 'Z'}) {
      TarFile tar;
      tar.add("a.jpg", "content", type, put(124, size)).add("b.jpg", "1");
      EXPECT_THROW(read(tar.bytes()), DataError) << size << ' ' << type;
    }
  }
  for (const char* size :
       {"9223372036854775807", "99999999999999999999", "-1", "1e3", "8000", "0x1"}) {
    TarFile tar;
    tar.add("x", TarFile::pax("size", size), 'x').add("a.jpg", "1");
    EXPECT_THROW(read(tar.bytes()), DataError) << size;
  }
}

TEST(Tar, RejectsHostileExtensions) {
  TarFile endless;
  for (int i = 0; i < 1000; ++i) endless.add("././@LongLink", "name", 'L');
  expect_refused(endless.add("a.jpg", "1").bytes(), "more than 16");
  TarFile large;
  expect_refused(large.add("x", std::string((1 << 20) + 1, ' '), 'x').bytes(),
                 "extension of 1048577");
  TarFile last;
  expect_refused(last.add("x", TarFile::pax("path", "a"), 'x').bytes(),
                 "must follow its extension");
  TarFile global;
  expect_refused(global.add("g", TarFile::pax("size", "0"), 'g').add("a", "1").bytes(),
                 "all members");
  for (const char* records : {"x", "0 a=b\n", "7 path=", "999 path=a\n", "9 path=a!", "8 path a\n",
                              "-8 a=b\n", "99999999999999999999999 a=b\n", "6  a=b", "3 \n"}) {
    TarFile tar;
    tar.add("x", records, 'x').add("a.jpg", "1");
    EXPECT_THROW(read(tar.bytes()), DataError) << records;
  }
  TarFile map;  // a sparse map that never ends
  map.add("a.jpg", "", 'S', [](TarFile::Header& h) { h[482] = 1; });
  for (int i = 0; i < 100; ++i) {
    std::string more(512, '\0');
    more[504] = 1;
    map.block(more);
  }
  expect_refused(map.without_end(), "sparse map");
}

// If any byte changes, members stay inside the archive (read() checks it), or it is refused.
TEST(Tar, AnyChangedByteIsRejectedOrHarmless) {
  TarFile tar;
  tar.add("././@LongLink", std::string(120, 'n'), 'L').add("n", "content");
  tar.add("x", TarFile::pax("path", "other") + TarFile::pax("size", "5"), 'x').add("a", "12345");
  const std::string good = tar.bytes();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (char value : {'\0', '\x80', '\xff', '7', ' '}) {
      std::string changed = good;
      changed[i] = value;
      if (i % 512 >= 148 + 8 || i % 512 < 148) {  // correct the checksum
        TarFile::Header h;
        std::memcpy(h.data(), &changed[i / 512 * 512], 512);
        if (h[257] == 'u') {
          TarFile::set_checksum(h);
          std::memcpy(&changed[i / 512 * 512], h.data(), 512);
        }
      }
      try {
        read(changed);
      } catch (const DataError&) {
      }
    }
  }
}

TEST(Tar, ReadsNestedArchive) {
  TarFile inner, outer;
  inner.add("a.jpg", "in here");
  outer.add("first", "1").add("inner.tar", inner.bytes());
  const std::string bytes = outer.bytes();
  MemorySource source(bytes_of(bytes), "outer.tar");
  TarReader reader(source);
  TarMember member, within;
  ASSERT_TRUE(reader.next(member) && reader.next(member));
  TarReader inside(source, member.offset, member.offset + member.size);
  ASSERT_TRUE(inside.next(within));
  EXPECT_EQ(bytes.substr(static_cast<std::size_t>(within.offset), 7), "in here");
  EXPECT_FALSE(inside.next(within));
  // The reader must not go beyond the end of its range.
  TarReader cut(source, member.offset, member.offset + 512 + 3);
  EXPECT_THROW(cut.next(within), DataError);
}

TEST(ByteSource, RejectsReadsOutOfRange) {
  const std::string text = "0123456789";
  MemorySource source(bytes_of(text), "ten");
  std::array<std::byte, 4> out;
  source.read(6, out);
  EXPECT_EQ(out[3], std::byte{'9'});
  source.read(10, std::span(out).first(0));
  for (std::int64_t at : {std::int64_t{7}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(source.read(at, out), DataError) << at;
  }
  EXPECT_THROW(FileSource("/nonexistent"), DataError);
  EXPECT_THROW(FileSource("/tmp"), DataError);
  EXPECT_THROW(FileSource("/dev/zero"), DataError);
}

}  // namespace
}  // namespace dtn
