// Pictures as files: <name>.svg, and <name>.png next to it.
#pragma once

#include <filesystem>
#include <string>

namespace dtn::plot {

class PictureFolder {
 public:
  // Creates the folder if it does not exist.
  explicit PictureFolder(std::filesystem::path folder);

  // Writes both files of a picture, each atomically. The PNG has two pixels per CSS pixel of the
  // SVG in each direction. The program rsvg-convert draws it; if that program is missing or fails,
  // only the SVG is written, and the first time a warning is logged. Throws Error if the folder
  // cannot be written. Call it from the main thread.
  void write(const std::string& name, const std::string& svg);

 private:
  void draw_png(const std::filesystem::path& svg, const std::filesystem::path& png);

  std::filesystem::path folder_;
  bool warned_ = false;
};

}  // namespace dtn::plot
