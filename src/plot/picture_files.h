// Pictures as files: <name>.svg, and usually <name>.png next to it.
#pragma once

#include <filesystem>
#include <string>

namespace dtn::plot {

enum class PictureFormats { kSvg, kSvgAndPng };

class PictureFolder {
 public:
  // Creates the folder if it does not exist.
  explicit PictureFolder(std::filesystem::path folder,
                         PictureFormats formats = PictureFormats::kSvgAndPng);

  // Writes the files of a picture, each atomically. The SVG follows the dark mode of a browser, the
  // PNG has the light colours. The PNG has two pixels per CSS pixel of the
  // SVG in each direction. The program rsvg-convert draws it; if that program is missing or fails,
  // only the SVG is written, and the first time a warning is logged. Throws Error if the folder
  // cannot be written. Call it from the main thread.
  void write(const std::string& name, const std::string& svg);

 private:
  void draw_png(const std::filesystem::path& svg, const std::filesystem::path& png);

  std::filesystem::path folder_;
  PictureFormats formats_;
  bool warned_ = false;
};

}  // namespace dtn::plot
