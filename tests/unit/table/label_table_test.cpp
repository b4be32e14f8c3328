// Tables of files and labels: their columns, and the errors that a person makes in them.
#include "data/table/label_table.h"

#include <gtest/gtest.h>

#include <chrono>

#include "dtn/core/check.h"
#include "texts.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Rows = std::vector<std::pair<std::string, std::string>>;

LabelTable read(const std::string& text, const std::string& name = "t.csv",
                LabelsPerImage labels = LabelsPerImage::kOne) {
  return read_label_table(MemorySource(std::as_bytes(std::span(text.data(), text.size())), name),
                          labels);
}

Rows rows(const LabelTable& table) {
  Rows all;
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    all.emplace_back(table.paths[i], table.texts[static_cast<std::size_t>(table.text_of[i])]);
  }
  return all;
}

void expect_rejected(const std::string& text, const std::vector<std::string>& parts) {
  expect_error<DataError>([&] { read(text); }, parts);
}

TEST(LabelTable, FindsHeader) {
  const Rows expected{{"1.jpg", "cat"}, {"2.jpg", "dog"}};
  EXPECT_EQ(rows(read("1.jpg,cat\n2.jpg,dog\n")), expected);
  EXPECT_EQ(read("1.jpg,cat\n2.jpg,dog\n").layout, "no header");
  EXPECT_EQ(rows(read("path,label\n1.jpg,cat\n2.jpg,dog\n")), expected);
  EXPECT_EQ(read("path,label\n1.jpg,cat\n").layout, "header path,label");
  EXPECT_EQ(rows(read("\xef\xbb\xbf\"Label\", File_Name \r\ncat,1.jpg\r\ndog,2.jpg\r\n")),
            expected);
  EXPECT_EQ(rows(read("class\timage\ncat\t1.jpg\ndog\t2.jpg\n", "t.tsv")), expected);
  EXPECT_EQ(read("class\timage\ncat\t1.jpg\n", "t.tsv").layout,
            "header class image, separated by tabs");
  EXPECT_EQ(rows(read("category;path\ncat;1.jpg\ndog;2.jpg\n")), expected);
}

TEST(LabelTable, PathsNeedNoEndingBelowHeader) {
  EXPECT_EQ(rows(read("path,label\n0001,cat\n")), (Rows{{"0001", "cat"}}));
  expect_rejected("0001,cat\n0002,dog\n", {"t.csv:1: ", "unknown column '0001'", "header"});
}

TEST(LabelTable, RejectsUnknownColumns) {
  expect_rejected("path,label,split\n1.jpg,cat,train\n",
                  {"t.csv:1: ", "unknown column 'split'", "path and label alone"});
  expect_rejected(",path,label\n0,1.jpg,cat\n", {"t.csv:1: ", "unknown column ''"});
  expect_rejected("path,file\n", {"t.csv:1: ", "two columns of the header are paths"});
  expect_rejected("path,label,class\n", {"t.csv:1: ", "two columns of the header are labels"});
  expect_rejected("path\n1.jpg\n", {"t.csv:1: ", "no column of labels"});
  expect_rejected("label\ncat\n", {"t.csv:1: ", "no column of paths"});
  expect_rejected("1.jpg,cat,3\n", {"t.csv:1: ", "has 3 columns and no header"});
  expect_rejected("1.jpg cat\n1.jpg\n", {"t.csv:1: "});
  expect_rejected("1.jpg\n", {"t.csv:1: ", "has 1 column and no header"});
}

TEST(LabelTable, RejectsRaggedLines) {
  expect_rejected("path,label\n1.jpg,cat\n2.jpg\n", {"t.csv:3: ", "has 1 field, line 1 has 2"});
  expect_rejected("1.jpg,cat\n2.jpg,dog,big\n",
                  {"t.csv:2: ", "has 3 fields, line 1 has 2", "quotes"});
  expect_rejected("path,label\n\"1\n.jpg\",cat\n\n2.jpg,a,b\n", {"t.csv:5: ", "has 3 fields"});
}

TEST(LabelTable, RejectsEmptyFields) {
  expect_rejected("1.jpg,cat\n2.jpg,\n", {"t.csv:2: ", "the label of '2.jpg' is empty"});
  expect_rejected("1.jpg,cat\n2.jpg,  \n", {"t.csv:2: ", "the label of '2.jpg' is empty"});
  expect_rejected("1.jpg,cat\n2.jpg,\"\"\n", {"t.csv:2: ", "the label of '2.jpg' is empty"});
  expect_rejected("1.jpg,cat\n,dog\n", {"t.csv:2: ", "the path is empty"});
  expect_rejected("path,label\n", {"t.csv: ", "no line with a path and a label"});
  expect_rejected("", {"t.csv: ", "no line with a path and a label"});
}

// A blank before or behind a label would make another class of it.
TEST(LabelTable, DropsBlanksOutsideQuotes) {
  EXPECT_EQ(rows(read("1.jpg, cat\n2.jpg,cat \n3.jpg,\" cat\"\n")),
            (Rows{{"1.jpg", "cat"}, {"2.jpg", "cat"}, {"3.jpg", " cat"}}));
}

TEST(LabelTable, SortsPathsAsFoldersAre) {
  const LabelTable table = read("s/t/1.jpg,a\ns-t/1.jpg,b\nz.jpg,b\ns/2.jpg,a\n0.jpg,a\n");
  EXPECT_EQ(rows(table), (Rows{{"0.jpg", "a"},
                               {"z.jpg", "b"},
                               {"s/2.jpg", "a"},
                               {"s-t/1.jpg", "b"},
                               {"s/t/1.jpg", "a"}}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{5, 3, 4, 2, 1}));
}

TEST(LabelTable, RejectsTwoLabelsOfOnePath) {
  expect_rejected("b.jpg,cat\na.jpg,dog\nb.jpg,dog\na.jpg,cat\n",
                  {"t.csv:3: ", "'b.jpg' has the label 'dog' here and 'cat' in line 1"});
  expect_rejected("a/b.jpg,cat\n./a//b.jpg,dog\n", {"t.csv:2: ", "'a/b.jpg'", "line 1"});
  expect_rejected("a.jpg,cat\n/a.jpg,cat\na.jpg,dog\n", {"t.csv:3: ", "'a.jpg'", "line 1"});
  expect_rejected("a.jpg,cat\na.jpg,cat\nb/../a.jpg,dog\n", {"t.csv:3: ", "'a.jpg'", "line 1"});
}

TEST(LabelTable, CountsRepeatedLines) {
  const LabelTable table = read("b.jpg,cat\na.jpg,dog\nb.jpg,cat\n./b.jpg,cat\n");
  EXPECT_EQ(rows(table), (Rows{{"a.jpg", "dog"}, {"b.jpg", "cat"}}));
  EXPECT_EQ(table.repeated, 2);
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(read("b.jpg,cat\na.jpg,dog\n").repeated, 0);
}

TEST(LabelTable, KeepsOddNames) {
  const Rows odd{{"a, b.jpg", "the \"best\""}, {"caf\xc3\xa9 1.jpg", "\xe7\x8c\xab"}};
  EXPECT_EQ(rows(read("\"a, b.jpg\",\"the \"\"best\"\"\"\ncaf\xc3\xa9 1.jpg,\xe7\x8c\xab\n")), odd);
}

// A quadratic step, or a search of all labels, would take minutes.
TEST(LabelTable, ReadsMillionLines) {
  std::string text = "path,label\n";
  constexpr int kLines = 1'000'000;
  for (int i = 0; i < kLines; ++i) {
    const std::string number = std::to_string((i * 7919ll) % kLines);
    text += "folder" + number.substr(0, 2) + "/image_" + number + ".jpg,class" +
            std::to_string(i % 1000) + "\n";
  }
  const auto start = std::chrono::steady_clock::now();
  const LabelTable table = read(text);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(table.paths.size(), static_cast<std::size_t>(kLines));
  EXPECT_EQ(table.texts.size(), 1000u);
  EXPECT_LT(passed.count(), 60) << "a few seconds on a machine that does nothing else";
}

// Returns each path with its labels in the order of the table's texts: "a.jpg: cat dog".
std::vector<std::string> any_number(const std::string& text) {
  const LabelTable table = read(text, "t.csv", LabelsPerImage::kAny);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    lines.push_back(std::string(table.paths[i]) + ":");
    for (const std::int32_t text_of :
         table.combinations[static_cast<std::size_t>(table.text_of[i])]) {
      lines.back() += " " + table.texts[static_cast<std::size_t>(text_of)];
    }
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LabelTable, ReadsAnyNumberOfLabels) {
  EXPECT_EQ(any_number("path,labels\n1.jpg,cat;dog\n2.jpg,\n3.jpg,dog ; dog;\n4.jpg,dog;cat\n"),
            (Lines{"1.jpg: cat dog", "2.jpg:", "3.jpg: dog", "4.jpg: cat dog"}));
  EXPECT_EQ(any_number("1.jpg;\"cat;dog\"\n"), Lines{"1.jpg: cat dog"});
}

// As in tables with one label in each line.
TEST(LabelTable, AddsLabelsOfAllLinesOfImage) {
  EXPECT_EQ(any_number("2.jpg,dog\n1.jpg,cat\n./2.jpg,cat;bird\n2.jpg,dog\n"),
            (Lines{"1.jpg: cat", "2.jpg: dog cat bird"}));
  EXPECT_EQ(read("1.jpg,a\n1.jpg,a\n", "t.csv", LabelsPerImage::kAny).repeated, 1);
}

TEST(LabelTable, ReadsColumnOfEachClass) {
  EXPECT_EQ(any_number("cat,file,dog\n1,1.jpg,0\n0,2.jpg,0.0\n1.0,3.jpg,1\n"),
            (Lines{"1.jpg: cat", "2.jpg:", "3.jpg: cat dog"}));
  // A class is there without an image, too.
  EXPECT_EQ(read("path,cat,dog\n1.jpg,1,0\n", "t.csv", LabelsPerImage::kAny).texts,
            (Lines{"cat", "dog"}));
  const auto reject = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { read(text, "t.csv", LabelsPerImage::kAny); }, parts);
  };
  reject("path,cat,dog\n1.jpg,1,\n", {"t.csv:2: ", "the column 'dog' has ''", "0 or 1"});
  reject("path,cat,dog\n1.jpg,2,1\n", {"t.csv:2: ", "the column 'cat' has '2'"});
  reject("path,cat,cat\n1.jpg,1,1\n", {"t.csv:1: ", "two columns of the header are 'cat'"});
  reject("path,,cat\n1.jpg,1,1\n", {"t.csv:1: ", "has no name"});
  reject("path,label,cat\n1.jpg,a,1\n", {"t.csv:1: ", "unknown column 'cat'"});
}

}  // namespace
}  // namespace dtn
