// Pictures as files: <name>.svg, and <name>.png beside it.
#pragma once

#include <filesystem>
#include <string>

namespace dtn::plot {

class PictureFolder {
 public:
  // Makes the folder where it is not there.
  explicit PictureFolder(std::filesystem::path folder);

  // Writes both files of a picture; each appears whole or not at all. The PNG has twice as many
  // pixels each way as the SVG has CSS pixels, and is drawn by the program rsvg-convert: where that
  // is missing or fails there is the SVG alone, and the first time a warning that says so. Throws
  // Error where the folder cannot be written. Call it from the main thread.
  void write(const std::string& name, const std::string& svg);

 private:
  void draw_png(const std::filesystem::path& svg, const std::filesystem::path& png);

  std::filesystem::path folder_;
  bool warned_ = false;
};

}  // namespace dtn::plot
