// Records of CSV files: what RFC 4180 says, what other programs write, and what must be an error.
#include "data/table/csv.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "texts.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Record = std::vector<std::string>;

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<Record> records(const std::string& text, char delimiter = ',',
                            std::vector<std::int64_t>* lines = nullptr) {
  const MemorySource file(bytes(text), "t.csv");
  CsvReader reader(file, delimiter);
  std::vector<Record> all;
  while (reader.next()) {
    Record& record = all.emplace_back();
    for (const CsvField& field : reader.fields()) record.emplace_back(field.text);
    if (lines) lines->push_back(reader.line());
  }
  return all;
}

void expect_rejected(const std::string& text, const std::vector<std::string>& parts) {
  expect_error<DataError>([&] { records(text); }, parts);
}

TEST(Csv, ReadsPlainFields) {
  const std::vector<Record> expected{{"a", "b"}, {"c", ""}, {"", "d e"}};
  EXPECT_EQ(records("a,b\nc,\n,d e\n"), expected);
  EXPECT_EQ(records("a,b\nc,\n,d e"), expected) << "the last line needs no line break";
  EXPECT_EQ(records("a\tb\nc\t\n\td e\n", '\t'), expected);
  EXPECT_EQ(records("a, b ,\n"), (std::vector<Record>{{"a", " b ", ""}})) << "blanks are content";
  EXPECT_TRUE(records("").empty());
}

TEST(Csv, EndsLinesWithLfCrlfOrCr) {
  const std::vector<Record> expected{{"a", "b"}, {"c", "d"}};
  EXPECT_EQ(records("a,b\r\nc,d\r\n"), expected);
  EXPECT_EQ(records("a,b\rc,d\r"), expected);
  EXPECT_EQ(records("a,b\r\nc,d\r"), expected);
  EXPECT_EQ(records("a,\"b\"\r\nc,\"d\"\r\n"), expected);
}

TEST(Csv, SkipsByteOrderMarkAndEmptyLines) {
  std::vector<std::int64_t> lines;
  EXPECT_EQ(records("\xef\xbb\xbf\r\na,b\n\n\nc,d\n\n", ',', &lines),
            (std::vector<Record>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{2, 5}));
  EXPECT_TRUE(records("\xef\xbb\xbf").empty());
  EXPECT_EQ(records("\xef\xbb\xbf\"a\",b\n"), (std::vector<Record>{{"a", "b"}}));
}

TEST(Csv, ReadsQuotedFields) {
  std::vector<std::int64_t> lines;
  EXPECT_EQ(records("\"a,b\",\"say \"\"hi\"\"\"\n\"two\r\nlines\",\"\"\n\"\"\"\",e\n", ',', &lines),
            (std::vector<Record>{{"a,b", "say \"hi\""}, {"two\r\nlines", ""}, {"\"", "e"}}));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{1, 2, 4})) << "quoted line breaks count";
  EXPECT_EQ(records("\"\""), (std::vector<Record>{{""}}))
      << "an empty quoted field is no empty line";
}

// Records that lie across the ends of blocks of the reader.
TEST(Csv, JoinsBlocks) {
  for (const char* line_break : {"\n", "\r\n", "\r"}) {
    const std::string line = std::string("\"x \"\"1\"\", y\",z") + line_break;
    std::string text;
    while (text.size() < (std::size_t{1} << 19) + 100) text += line;
    for (std::size_t shift = 0; shift < line.size(); ++shift) {
      const std::string first = std::string(shift, 'f') + "," + line_break;
      const std::vector<Record> all = records(first + text);
      ASSERT_EQ(all.size(), 1 + text.size() / line.size()) << shift;
      for (std::size_t i = 1; i < all.size(); ++i) {
        ASSERT_EQ(all[i], (Record{"x \"1\", y", "z"})) << shift << " " << i;
      }
    }
  }
}

TEST(Csv, RejectsQuotesOutOfPlace) {
  expect_rejected("a,b\nc,d\"e\n", {"t.csv:2: ", "a quote stands inside a field"});
  expect_rejected("a,b\n\"c\"d,e\n", {"t.csv:2: ", "text behind a closing quote"});
  expect_rejected("a,b\n\"c\" ,e\n", {"t.csv:2: ", "text behind a closing quote"});
  expect_rejected("a,b\nc,\"d\ne,f\n", {"t.csv:2: ", "a quote opens here and is not closed"});
  expect_rejected("\"", {"t.csv:1: ", "is not closed"});
  expect_rejected("a,b\n\"two\nlines\"x", {"t.csv:3: ", "text behind a closing quote"});
}

TEST(Csv, RejectsOtherEncodings) {
  expect_rejected(std::string("\xff\xfe"
                              "a\0",
                              4),
                  {"t.csv:1: ", "UTF-16", "UTF-8"});
  expect_rejected(std::string("a\0,\0", 4), {"t.csv:1: ", "byte 0"});
  expect_rejected(std::string("a,b\n\"c\0\"", 8), {"t.csv:2: ", "byte 0"});
}

// An open quote must not collect the rest of a large file.
TEST(Csv, RejectsHugeRecords) {
  std::string text = "a,b\n\"c,d\n";
  while (text.size() < (std::size_t{1} << 22)) text += "one more line, and another\n";
  expect_rejected(text, {"t.csv:2: ", "more than 1 MiB", "quote not closed"});
}

TEST(Csv, FindsDelimiters) {
  const auto found = [](const std::string& name, const std::string& text) {
    return delimiter_of(MemorySource(bytes(text), name));
  };
  EXPECT_EQ(found("a.csv", "path,label\n"), ',');
  EXPECT_EQ(found("a.csv", "path;label\n"), ';');
  EXPECT_EQ(found("a.csv", "path;labels,b\n"), ',') << "a;b may be several labels";
  EXPECT_EQ(found("a.csv", "\"a,b\";c\n"), ';') << "a comma in quotes";
  EXPECT_EQ(found("a.csv", "path\tlabel\na,b\n"), '\t');
  EXPECT_EQ(found("a.TSV", "path,label\n"), '\t');
  EXPECT_EQ(found("a.tab", "path,label\n"), '\t');
  EXPECT_EQ(found("a.txt", "a b, c\tlabel\n"), '\t');
  EXPECT_EQ(found("labels", "a,b\n"), ',');
  EXPECT_EQ(found("labels", "one column\n"), ',');
  EXPECT_EQ(found("a.csv", ""), ',');
}

TEST(Csv, WritesWhatItReads) {
  const Record fields{"plain", "a,b", "a;b", "say \"hi\"", "two\r\nlines", " blank ", "", "tab\t"};
  for (const char delimiter : {',', '\t', ';'}) {
    std::string line;
    for (const std::string& field : fields) {
      line += (line.empty() ? "" : std::string(1, delimiter)) + csv_field(field);
    }
    EXPECT_EQ(records(line + "\n", delimiter), (std::vector<Record>{fields}));
  }
  EXPECT_EQ(csv_field("plain.jpg"), "plain.jpg");
}

}  // namespace
}  // namespace dtn
