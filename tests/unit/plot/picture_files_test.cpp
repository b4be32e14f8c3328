#include "plot/picture_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "dtn/io/image.h"
#include "io/file.h"
#include "plot/chart.h"
#include "temp_folder.h"
#include "xml_check.h"

namespace dtn::plot {
namespace {
namespace fs = std::filesystem;

class PictureFiles : public ::testing::Test {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_ / "out"), fs::directory_iterator()));
  }

  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::string picture() {
  Chart chart;
  chart.title = "a line";
  chart.series = {{"", {1, 2, 3}, {3, 1, 2}, {}, {}, 0}};
  return draw_chart(chart, "a line");
}

// Sets PATH to one folder, to simulate a machine with only the given program.
class Path {
 public:
  explicit Path(const fs::path& folder) : old_(std::getenv("PATH")) {
    ::setenv("PATH", folder.c_str(), 1);
  }
  ~Path() { ::setenv("PATH", old_.c_str(), 1); }

 private:
  std::string old_;
};

TEST_F(PictureFiles, WritesSvgAndWarnsOnceWithoutRenderer) {
  const Path nothing(folder_);
  PictureFolder out(folder_ / "out");
  testing::internal::CaptureStderr();
  out.write("one", picture());
  out.write("two", picture());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(files(), 2u);
  const std::size_t first = said.find("librsvg2-bin");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("librsvg2-bin", first + 1), std::string::npos) << said;
}

TEST_F(PictureFiles, FailedRendererLeavesNoOldPicture) {
  const fs::path program = folder_ / "rsvg-convert";
  std::ofstream(program) << "#!/bin/sh\necho no memory >&2\nexit 1\n";
  fs::permissions(program, fs::perms::owner_all);
  const Path only(folder_);
  PictureFolder out(folder_ / "out");
  std::ofstream(folder_ / "out/one.png") << "of yesterday";
  testing::internal::CaptureStderr();
  out.write("one", picture());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no memory"), std::string::npos);
  EXPECT_EQ(files(), 1u);
}

TEST_F(PictureFiles, PngIsDeterministic) {
  PictureFolder out(folder_ / "out");
  out.write("one", picture());
  out.write("two", picture());
  if (!fs::exists(folder_ / "out/one.png")) GTEST_SKIP() << "no rsvg-convert here";
  EXPECT_EQ(files(), 4u);
  const std::vector<std::byte> png = read_file(folder_ / "out/one.png");
  EXPECT_EQ(png, read_file(folder_ / "out/two.png"));
  const Image image = decode_image(png, "png", {}, ColorMode::kRgb);
  EXPECT_EQ(image.width, 1080);
  EXPECT_EQ(image.pixels[0], 255);  // on white
}

TEST_F(PictureFiles, SvgFollowsDarkModeOfBrowser) {
  PictureFolder out(folder_ / "out");
  out.write("one", picture());
  std::ifstream file(folder_ / "out/one.svg");
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(svg.find(".f-paper{fill:" + hex(kPaper.dark)), std::string::npos);
}

}  // namespace
}  // namespace dtn::plot
